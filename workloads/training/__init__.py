"""Common parts of the training workloads: declaration, Keras setup, the experiment, and quality checks."""
