"""The meaning of records: pure functions that take records and return answers."""
