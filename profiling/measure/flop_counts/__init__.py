"""FLOPs of a training step, counted from the model's layers and by the framework."""
