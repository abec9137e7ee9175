"""A language model: its sizes, and the network in Keras."""
