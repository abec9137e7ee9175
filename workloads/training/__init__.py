"""The parts of every training workload: a Keras model on a chosen backend, its input pipeline, its quality."""
