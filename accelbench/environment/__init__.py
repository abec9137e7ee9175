"""Environment records as text: fields by their dotted paths, and the differences between two environments."""
