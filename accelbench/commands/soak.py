"""Command `soak`: full load on all devices of this node, with every result checked."""

from __future__ import annotations

import os
from pathlib import Path

import click

from accelbench.commands import BoundedNumber, SuggestingChoice, console
from accelbench.commands.gate import NODE_VARIABLES


@click.command()
@click.option("--minutes", type=BoundedNumber(0.01, 10_080), default=10.0, show_default=True, help="Time of the load.")
@click.option(
    "--device",
    type=SuggestingChoice(["all", "cpu", "gpu"]),
    default="all",
    show_default=True,
    help="Devices to load: all CPUs and GPUs, or only those of one kind.",
)
@click.option(
    "--suite",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Suite file with other kernels than products, memory patterns and tree search.",
)
@click.option("--node", help="Name of the node in the answer. Default: SLURMD_NODENAME or NODE_NAME.")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Folder of the results. Default: soak/<id>."
)
@click.option("--inject-error", is_flag=True, help="Flip one bit of one result, to test that it is found.")
@click.option(
    "--format",
    "form",
    type=SuggestingChoice(["text", "json"]),
    default="text",
    show_default=True,
    help="Table and one line, or the content of soak.json.",
)
def command(
    minutes: float,
    device: str,
    suite: Path | None,
    node: str | None,
    out: Path | None,
    inject_error: bool,
    form: str,
) -> int:
    """Load all devices of this node, and check every result: exit status 0 right, 1 wrong, 2 not measurable.

    Each logical CPU and each GPU has a process of its own, so that a wrong result names it. Ctrl-C and SIGTERM end the
    load early, with the answer so far.
    """
    from accelbench.output.console import say
    from accelbench.soak.node_soak import DEVICES, SUITE, SoakSettings, soak_node
    from accelbench.soak.page import print_answer, write_answer

    settings = SoakSettings(
        seconds=60 * minutes,
        devices=tuple(each for each in DEVICES if device in ("all", each)),
        suite=suite or SUITE,
        node=next(filter(None, (node, *map(os.environ.get, NODE_VARIABLES))), ""),
        inject_error=inject_error,
    )
    answer = soak_node(settings, lambda text: say(text, stderr=True))
    written = write_answer(answer, out or Path("soak") / answer.id)
    if form == "json":
        say(answer.model_dump_json(indent=1))
    else:
        print_answer(answer, console())
        say(answer.line())
    say(f"{written}", stderr=True)
    return answer.exit_status
