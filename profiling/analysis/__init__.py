"""What records mean: pure functions that take records and return answers."""
