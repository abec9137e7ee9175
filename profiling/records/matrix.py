"""Axes of a benchmark whose points form a matrix, such as the copies between all pairs of GPUs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MatrixAxes:
    """Axes of the rows and columns of a matrix of results."""

    rows: str
    """The axis with one row for each of its values."""
    columns: str
    """The axis with one column for each of its values."""
    diagonal: bool = True
    """Whether there are points with the same value of both axes."""
    marks: tuple[str, ...] = ()
    """The metrics named next to a result in its cell if its record has them and they are not zero."""

    @property
    def rule(self) -> str:
        """Return the rule that excludes points with the same value of both axes; empty if there are such points."""
        return "" if self.diagonal else f"{self.rows} and {self.columns} differ"
