"""Command `schema`: JSON Schema of the stored files."""

from __future__ import annotations

import json

import click


@click.command()
@click.argument("what", type=click.Choice(["record", "run"]), default="record")
def command(what: str) -> None:
    """Print the JSON Schema of a line of records.jsonl, or of run.json."""
    from accelbench.execution.store import RunInfo
    from accelbench.profiling.records.record import Record

    model = Record if what == "record" else RunInfo
    print(json.dumps(model.model_json_schema(), indent=2))
