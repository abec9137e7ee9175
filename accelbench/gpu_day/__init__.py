"""GPU day: all measurements of a GPU in stages, by one command, within a time budget."""
