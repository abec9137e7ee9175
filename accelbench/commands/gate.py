"""Command `gate`: whether this node is fit for the next job."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, cast

import click

from accelbench.commands import BoundedNumber, SuggestingChoice
from accelbench.errors import UserError

NODE_VARIABLES = ("SLURMD_NODENAME", "NODE_NAME")
"""Variables with the node's name: Slurm's, and the usual one of a Kubernetes field reference."""


def parse_only(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[Literal["cpu", "gpu", "memory", "disk", "network"], ...]:
    """Return the resources of `--only`."""
    from accelbench.gate.answer import RESOURCES

    words = dict.fromkeys(word.strip() for word in value.split(",")) if value else {}
    if unknown := [word for word in words if word not in RESOURCES]:
        raise UserError(f"--only: unknown resource {unknown[0]!r} (choose from {', '.join(RESOURCES)})")
    return tuple(resource for resource in RESOURCES if resource in words)


def parse_tags(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Return the tags by name."""
    pairs = [value.partition("=") for value in values]
    if wrong := [name for name, sign, _ in pairs if not (name and sign)]:
        raise UserError(f"--tag {wrong[0]}: write KEY=VALUE, as in rack=r12")
    return {name: text for name, _, text in pairs}


@click.command()
@click.option(
    "--level",
    type=SuggestingChoice(["quick", "standard", "thorough"]),
    default="quick",
    show_default=True,
    help="Extent of the checks: at most 30 s, 2 min or 15 min.",
)
@click.option("--only", metavar="cpu,gpu,...", callback=parse_only, help="Check only cpu, gpu, memory, disk, network.")
@click.option(
    "--baseline",
    "baseline",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Limits by 'accelbench baseline'.",
)
@click.option(
    "--history",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder of stored runs for limits. Default: runs.",
)
@click.option(
    "--suite",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Suite file instead of the level's benchmarks.",
)
@click.option("--time-limit", type=BoundedNumber(2, 900), help="Shorter time limit in seconds.")
@click.option("--include-noisy", is_flag=True, help="Measure a busy node, and decide by noisy measurements.")
@click.option("--node", help="Name of the node in the answer. Default: SLURMD_NODENAME or NODE_NAME.")
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", callback=parse_tags, help="Attribute for 'fleet'.")
@click.option(
    "--format",
    "form",
    type=SuggestingChoice(["text", "json", "jsonl", "npd"]),
    default="text",
    show_default=True,
    help="One line of text, JSON, JSON in one line, or the message of a node-problem-detector plug-in.",
)
@click.option(
    "--out",
    metavar="FOLDER|FILE.json|URL",
    help="Also write the answer as JSON to a folder or file, or to a store (s3://, gs://, ...), for 'fleet'.",
)
@click.option("--verbose", is_flag=True, help="Print the passed checks, too (to standard error).")
def command(
    level: str,
    only: tuple[str, ...],
    baseline: Path | None,
    history: Path | None,
    suite: Path | None,
    time_limit: float | None,
    include_noisy: bool,
    node: str | None,
    tags: dict[str, str],
    form: str,
    out: str | None,
    verbose: bool,
) -> int:
    """Check whether this node is fit for the next job: exit status 0 fit, 1 unfit, 2 unknown.

    Standard output has one line for the log of a scheduler; the checks that did not pass are on standard error.
    """
    from accelbench.execution.store import RUNS
    from accelbench.gate.answer import GateLevel, GateResource
    from accelbench.gate.answer_file import AnswerFile
    from accelbench.gate.baseline import read_baseline
    from accelbench.gate.node_gate import GateSettings, check_node
    from accelbench.output.console import say

    settings = GateSettings(
        level=cast(GateLevel, level),
        only=cast(tuple[GateResource, ...], only),
        suite=suite,
        baseline=read_baseline(baseline) if baseline else None,
        baseline_name=baseline.name if baseline else "",
        history=history or (RUNS if RUNS.is_dir() else None),
        limit_s=time_limit,
        include_noisy=include_noisy,
        node=next(filter(None, (node, *map(os.environ.get, NODE_VARIABLES))), ""),
        tags=tags,
    )
    file = AnswerFile(out) if out else None
    answer = check_node(settings)
    for check in answer.checks:
        if form == "text" and (verbose or check.status in ("warn", "fail") or check.kind != "health"):
            advice = f" ({check.advice})" if check.advice else ""
            name = "" if check.kind == "node" else f"{check.name}: "  # in the text of a check of the node itself
            say(f"{check.status:7} {name}{check.found}{advice}", stderr=True)
    if form in ("json", "jsonl"):
        say(answer.model_dump_json(indent=1 if form == "json" else None))
    else:
        say(answer.npd_line() if form == "npd" else answer.line())
    if file:
        try:
            file.write(answer)
        except UserError as error:
            say(f"accelbench: the answer is not stored: {error}", stderr=True)
            return answer.exit_status or error.exit_status
    return answer.exit_status
