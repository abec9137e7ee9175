"""The language model: sizes, and the network in Keras."""
