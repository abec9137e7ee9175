"""The processes that measure a point together."""
