"""Settings of commands: the options file of a folder, and the bounds of numeric options."""
