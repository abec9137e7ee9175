"""Fitness of one node: limits learned from good nodes, health counters, a short measurement and one answer."""
