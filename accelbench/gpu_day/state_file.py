"""State file of a GPU day, `day.json`, with the state of each stage, for resuming."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from accelbench.errors import UserError
from accelbench.output.atomic_file import write_atomically
from accelbench.profiling.files import read_regular

StageState = Literal["done", "failed", "out of time", "interrupted", "all skipped", "skipped", "not reached"]
FINISHED: tuple[StageState, ...] = ("done", "failed", "all skipped")
"""States of stages that are not run again."""


@dataclass(frozen=True)
class StageEntry:
    """State of one stage."""

    state: StageState
    seconds: float = 0.0
    """Wall time in seconds, summed over all calls."""
    note: str = ""
    """Result of the stage as text, or the reason why it has none."""


class DayState:
    """State file of a GPU day; each change is written to disk immediately."""

    def __init__(self, out: Path, card: str) -> None:
        """Read or create the state file in `out`; raises UserError for a corrupt file, or one of another card."""
        self._path, self._card = out / "day.json", card
        self.entries: dict[str, StageEntry] = {}
        if self._path.exists():
            try:
                known: Any = json.loads(read_regular(self._path))
                self.entries = {stage: StageEntry(**entry) for stage, entry in known["stages"].items()}
                theirs = known["card"]
            except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise UserError(f"{self._path} is corrupt ({error}): choose another --out") from error
            if theirs != card:
                raise UserError(
                    f"{out} belongs to another GPU ({theirs}), and this one is {card}: choose another --out"
                )

    def finished(self, stage: str) -> bool:
        return stage in self.entries and self.entries[stage].state in FINISHED

    def write(self, stage: str, state: StageState, seconds: float = 0.0, note: str = "") -> None:
        """Store the entry of the stage; `seconds` are added to the time of earlier calls."""
        before = self.entries.get(stage)
        self.entries[stage] = StageEntry(state, round(seconds + (before.seconds if before else 0.0), 1), note)
        self._save()

    def forget(self, stage: str) -> None:
        """Remove the entry of the stage."""
        self.entries.pop(stage, None)
        self._save()

    def _save(self) -> None:
        stages = {stage: asdict(entry) for stage, entry in self.entries.items()}
        text = json.dumps({"card": self._card, "stages": stages}, indent=2, ensure_ascii=False) + "\n"
        write_atomically(self._path, lambda path: path.write_text(text, encoding="utf-8"))
