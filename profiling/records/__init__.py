"""Stored types: the fields of `records.jsonl` and of the environment in `run.json`."""
