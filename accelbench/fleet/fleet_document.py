"""Output of a fleet's comparison: terminal, JSON and CSV."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd
from rich.console import Console
from rich.text import Text

from accelbench.errors import UserError
from accelbench.export.document import Column, DocumentRow, ResultDocument
from accelbench.export.terminal import new_table, table_of
from accelbench.fleet.changes import FleetChanges, GroupChange, compare_fleets
from accelbench.fleet.observations import FleetData, read_fleet
from accelbench.fleet.odd import LEAST_NODES, compare_nodes
from accelbench.fleet.shared import SharedAttribute, sentences, shared_attributes
from accelbench.output.format import counted, percent

SHOWN = 40
"""Maximum number of odd results in the terminal."""
NAMED = 5
"""Maximum number of skipped files in the terminal, and of nodes in a note."""
CSV_COLUMNS = ["machine", "node", "metric", "repetitions", "group", "difference", "z", "p", "adjusted_p", "odd"]


@dataclass(frozen=True)
class FleetComparison:
    """Comparison of all nodes: a row for each node and metric, and the attributes that odd nodes share."""

    data: FleetData
    rows: pd.DataFrame
    shared: list[SharedAttribute]
    changes: FleetChanges | None = None
    """Changes of the fleet, if it was measured twice; the rows are then the changes of the nodes."""
    before: FleetData | None = None
    """The first measurement."""

    @classmethod
    def of(cls, words: Sequence[str], include_noisy: bool = False, least_difference: float = 0.01) -> FleetComparison:
        """Return the comparison of the nodes of these runs, folders and answers of the gate."""
        data = read_fleet(words, include_noisy)
        rows = compare_nodes(data, least_difference)
        return cls(data, rows, _shared(data, rows))

    @classmethod
    def of_two(
        cls, before: Sequence[str], after: Sequence[str], include_noisy: bool = False, least_difference: float = 0.01
    ) -> FleetComparison:
        """Return the comparison of two measurements of a fleet; UserError if no node was measured both times."""
        first, data = read_fleet(before, include_noisy), read_fleet(after, include_noisy)
        changes = compare_fleets(first, data, least_difference)
        if changes.rows.empty:
            raise UserError(
                f"no node with the same name, hardware and metric is in both {', '.join(before)} and {', '.join(after)}"
            )
        return cls(data, changes.rows, _shared(data, changes.rows), changes, first)

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
        if noisy := sum(data.noisy for data in self._measurements):
            yield f"{counted(noisy, 'noisy result')} left out (--include-noisy)"
        if self.changes:
            for count, when in ((self.changes.only_before, "before"), (self.changes.only_after, "after")):
                if count:
                    yield f"{counted(count, 'node')} measured {when} only, and not compared"
        kinds = pd.Series([node for _, node in self.data.attributes]).value_counts()
        if several := sorted(kinds[kinds > 1].index):
            named = ", ".join(several[:NAMED]) + (", …" if len(several) > NAMED else "")
            yield f"{counted(len(several), 'node')} with several kinds of hardware: {named}"
        sizes = self.rows.groupby("machine")["node"].nunique()
        small = sizes[sizes < LEAST_NODES]
        if len(small) > NAMED:
            yield f"{len(small)} groups of fewer than {LEAST_NODES} nodes are too small to compare"
            return
        for machine, count in small.items():
            yield f"{machine}: {counted(int(count), 'node')}, too few to compare (at least {LEAST_NODES})"

    @property
    def shared_sentences(self) -> list[str]:
        """Return what odd nodes have in common as text."""
        return sentences(self.shared, self.rows["machine"].nunique())

    @property
    def _measurements(self) -> list[FleetData]:
        return [data for data in (self.before, self.data) if data]

    @property
    def skipped(self) -> list[str]:
        """Return the message for each file that was not read."""
        return [sentence for data in self._measurements for sentence in data.skipped]

    @property
    def compared_nodes(self) -> int:
        """Return the number of nodes that were compared, or that have any result if the fleet was measured once."""
        return len(self.rows[["machine", "node"]].drop_duplicates()) if self.changes else len(self.data.attributes)

    @property
    def odd_nodes(self) -> int:
        """Return the number of nodes with an odd result."""
        return len(self.rows.loc[self.rows["odd"], ["machine", "node"]].drop_duplicates())

    @property
    def headline(self) -> str:
        """Return the number of odd nodes as text."""
        nodes = counted(self.compared_nodes, "node")
        if self.changes:
            return f"{self.odd_nodes:,} of {nodes} changed more than the rest"
        return f"{self.odd_nodes:,} odd of {nodes}"

    def slower_groups(self, share: float, confidence: float) -> list[GroupChange]:
        """Return the groups that are slower after than before by more than this share, with this confidence.

        The confidence holds for all groups together.
        """
        groups = self.changes.groups if self.changes else []
        each = 1 - (1 - confidence) / max(1, len(groups))
        return [group for group in groups if group.is_slower_by(share, each)]

    def document(self) -> ResultDocument:
        """Return the document with the odd results as failed rows."""
        groups = [
            {"machine": machine, "nodes": int(part["node"].nunique()), "metrics": int(part["metric"].nunique())}
            for machine, part in self.rows.groupby("machine")
        ]
        facts = {
            "nodes": self.compared_nodes,
            "odd_nodes": self.odd_nodes,
            "groups": groups,
            "shared": [{**vars(each), "sentence": each.sentence} for each in self.shared],
            "notes": list(self.notes),
            "skipped": self.skipped,
        }
        if self.changes:
            facts["changes"] = [
                {name: value for name, value in vars(group).items() if name != "sorted_changes"}
                for group in self.changes.groups
            ]
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
                f"{row['metric']}: {signed(row['difference'])}",
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
        to.print(Text(self.headline, style="bold red" if self.odd_nodes else "bold green"))
        if self.changes:
            self._print_changes(to, self.changes)
        if document.rows:
            to.print(table_of(ResultDocument("fleet", {}, document.rows[:SHOWN], columns=document.columns)))
        if len(document.rows) > SHOWN:
            to.print(Text(f"{len(document.rows) - SHOWN:,} more: --format csv", style="dim"))
        for sentence in self.shared_sentences:
            to.print(Text(sentence, style="yellow"))
        for group in document.facts["groups"]:
            size = f"{counted(group['nodes'], 'node')}, {counted(group['metrics'], 'metric')}"
            to.print(Text(f"{group['machine']}: {size}", style="dim"))
        for note in self.notes:
            to.print(Text(note, style="yellow"))
        for sentence in self.skipped[:NAMED]:
            to.print(Text(f"skipped: {sentence}", style="yellow"))
        if len(self.skipped) > NAMED:
            to.print(Text(f"skipped: {len(self.skipped) - NAMED:,} more (--format json)", style="yellow"))

    def _print_changes(self, to: Console, changes: FleetChanges) -> None:
        table = new_table("metric", "change of the median", "of nodes")
        for group in changes.groups[:SHOWN]:
            table.add_row(Text(group.metric), Text(change_text(group)), Text(f"{group.nodes:,}"))
        to.print(table)


def change_text(group: GroupChange) -> str:
    """Return the change of a group with its interval as text."""
    if group.low is None or group.high is None:
        return f"{signed(group.change)} (no interval: fewer than 6 nodes)"
    return f"{signed(group.change)} ({signed(group.low)} to {signed(group.high)})"


def _shared(data: FleetData, rows: pd.DataFrame) -> list[SharedAttribute]:
    found = rows[rows["odd"]]
    return shared_attributes(data, {str(machine): set(part["node"]) for machine, part in found.groupby("machine")})


def signed(difference: float) -> str:
    """Return a relative change in percent with its sign."""
    return ("+" if difference >= 0 else "−") + percent(abs(difference))
