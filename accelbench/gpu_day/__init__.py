"""The day of a GPU: all that one wants to know of it, in stages, by one command, in as much time as there is."""
