"""The FLOPs of a training step, counted by the model's layers, by the framework and by the processor."""
