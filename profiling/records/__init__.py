"""The types that are stored: everything else stands on them, and they stand on nothing."""
