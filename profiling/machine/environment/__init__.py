"""The environment record: the facts about the machine that may explain a figure."""
