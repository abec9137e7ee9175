"""What every training workload is made with: a Keras model on a chosen backend, its input pipeline, its quality."""
