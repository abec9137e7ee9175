"""Telemetry during a measurement: sensors, kernel counters, and noise flags."""
