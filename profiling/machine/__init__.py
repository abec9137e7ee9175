"""What this machine is and what state it is in: facts, sensors, noise, peaks, memory and devices."""
