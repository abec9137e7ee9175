"""Ranks that measure a point together: their world, the channels between them, and their rendezvous."""
