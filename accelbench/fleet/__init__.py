"""Comparison of the nodes of a fleet: odd nodes among equal hardware, and the attributes that they share."""
