"""Telemetry of the machine during a measurement: sensors, counters, and the noise that they show."""
