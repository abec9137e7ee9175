"""The machine and its state: facts, sensors, noise, peaks, memory and devices."""
