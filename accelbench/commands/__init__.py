"""What a user types: one file for each group of commands."""
