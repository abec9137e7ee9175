"""Output of a fleet's comparison: terminal, JSON and CSV."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd
from rich.console import Console
from rich.text import Text

from accelbench.export.document import Column, DocumentRow, ResultDocument
from accelbench.export.terminal import table_of
from accelbench.fleet.observations import FleetData, read_fleet
from accelbench.fleet.odd import LEAST_NODES, compare_nodes
from accelbench.fleet.shared import SharedAttribute, shared_attributes
from accelbench.output.format import counted, percent

SHOWN = 40
"""Maximum number of odd results in the terminal."""
NAMED = 5
"""Maximum number of skipped files in the terminal."""
CSV_COLUMNS = ["machine", "node", "metric", "repetitions", "group", "difference", "z", "p", "adjusted_p", "odd"]


@dataclass(frozen=True)
class FleetComparison:
    """Comparison of all nodes: a row for each node and metric, and the attributes that odd nodes share."""

    data: FleetData
    rows: pd.DataFrame
    shared: list[SharedAttribute]

    @classmethod
    def of(cls, words: list[str], include_noisy: bool = False, least_difference: float = 0.01) -> FleetComparison:
        """Return the comparison of the nodes of these runs, folders and answers of the gate."""
        data = read_fleet(words, include_noisy)
        rows = compare_nodes(data, least_difference)
        found = rows[rows["odd"]]
        odd = {str(machine): set(part["node"]) for machine, part in found.groupby("machine")}
        return cls(data, rows, shared_attributes(data, odd))

    @property
    def odd(self) -> pd.DataFrame:
        """Return the odd results: nodes with the largest distance first, and their metrics together."""
        found = self.rows[self.rows["odd"]].assign(distance=lambda rows: rows["z"].abs())
        node = found.groupby(["machine", "node"])["distance"].transform("max")
        order = found.assign(of_node=node).sort_values(
            ["of_node", "machine", "node", "distance", "metric"], ascending=[False, True, True, False, True]
        )
        return order.drop(columns=["distance", "of_node"])

    @property
    def notes(self) -> Iterator[str]:
        """Yield what limits the comparison, as text."""
        if self.data.noisy:
            yield f"{counted(self.data.noisy, 'noisy result')} left out (--include-noisy)"
        kinds = pd.Series([node for _, node in self.data.attributes]).value_counts()
        for node in sorted(kinds[kinds > 1].index):
            yield f"{node} appears with {kinds[node]} kinds of hardware"
        sizes = self.rows.groupby("machine")["node"].nunique()
        for machine, count in sizes.items():
            if count < LEAST_NODES:
                yield f"{machine}: {counted(int(count), 'node')}, too few to compare (at least {LEAST_NODES})"

    def document(self) -> ResultDocument:
        """Return the document with the odd results as failed rows."""
        groups = [
            {"machine": machine, "nodes": int(part["node"].nunique()), "metrics": int(part["metric"].nunique())}
            for machine, part in self.rows.groupby("machine")
        ]
        facts = {
            "nodes": len(self.data.attributes),
            "odd_nodes": len(self.odd[["machine", "node"]].drop_duplicates()),
            "groups": groups,
            "shared": [{**vars(each), "sentence": each.sentence} for each in self.shared],
            "notes": list(self.notes),
            "skipped": self.data.skipped,
        }
        rows = [
            DocumentRow(
                str(row["node"]),
                {
                    "machine": row["machine"],
                    "metric": row["metric"],
                    "difference": float(row["difference"]),
                    "z": float(row["z"]),
                    "adjusted_p": float(row["adjusted_p"]),
                    "repetitions": int(row["repetitions"]),
                    "group": int(row["group"]),
                },
                "failed",
                f"{row['metric']}: {_signed(row['difference'])}",
            )
            for row in self.odd.to_dict("records")
        ]
        columns = (
            Column("node", ("{name}",)),
            Column("metric", ("{metric}",)),
            Column("difference", ("{difference:+.1%}",), right=True, whole=True),
            Column("z", ("{z:+.1f}",), right=True, whole=True),
            Column("of nodes", ("{group:,}",), right=True, whole=True),
        )
        return ResultDocument("fleet", facts, rows, columns=columns)

    def csv(self) -> str:
        """Return all nodes and metrics as CSV."""
        text = io.StringIO()
        self.rows[CSV_COLUMNS].to_csv(text, index=False, float_format="%.6g", lineterminator="\n")
        return text.getvalue().rstrip("\n")

    def print(self, to: Console) -> None:
        """Print the odd nodes, the attributes that they share, and what limits the comparison."""
        document = self.document()
        nodes, odd = document.facts["nodes"], document.facts["odd_nodes"]
        to.print(Text(f"{odd:,} odd of {counted(nodes, 'node')}", style="bold red" if odd else "bold green"))
        if document.rows:
            to.print(table_of(ResultDocument("fleet", {}, document.rows[:SHOWN], columns=document.columns)))
        if len(document.rows) > SHOWN:
            to.print(Text(f"{len(document.rows) - SHOWN:,} more: --format csv", style="dim"))
        for each in self.shared:
            to.print(Text(each.sentence, style="yellow"))
        for group in document.facts["groups"]:
            size = f"{counted(group['nodes'], 'node')}, {counted(group['metrics'], 'metric')}"
            to.print(Text(f"{group['machine']}: {size}", style="dim"))
        for note in self.notes:
            to.print(Text(note, style="yellow"))
        for sentence in self.data.skipped[:NAMED]:
            to.print(Text(f"skipped: {sentence}", style="yellow"))
        if len(self.data.skipped) > NAMED:
            to.print(Text(f"skipped: {len(self.data.skipped) - NAMED:,} more (--format json)", style="yellow"))


def _signed(difference: float) -> str:
    return ("+" if difference >= 0 else "−") + percent(abs(difference))
