"""The environment record: what the machine is, in facts that may explain a figure."""
