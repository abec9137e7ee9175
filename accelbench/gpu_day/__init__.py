"""Everything that one wants to know of a GPU, in stages: by one command, in as much time as there is."""
