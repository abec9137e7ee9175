"""Stored runs of a machine over time: each point's spread between runs, and its changes of speed."""
