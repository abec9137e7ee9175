"""Quality of a classifier by class, from the confusion matrix of its record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from accelbench.output.format import digits
from accelbench.profiling.records.quality import ConfusionMatrix

MOST_COLUMNS = 20
"""Maximum number of classes with their counts on the page; for more classes the table has the qualities only."""


@dataclass(frozen=True)
class ClassCount:
    """Number of examples of one class that were predicted as one class."""

    predicted: str
    count: int
    share: float
    """Share of the examples of the true class."""


@dataclass(frozen=True)
class ClassQuality:
    """Quality of the predictions of one class."""

    name: str
    examples: int
    """Number of held-out examples of the class."""
    precision: float | None
    """Share of the class's predictions that are right; None if the class was never predicted."""
    recall: float | None
    """Share of the class's examples that are found; None without examples."""
    counts: tuple[ClassCount, ...]

    @property
    def f1(self) -> float | None:
        """Return the harmonic mean of precision and recall, which is 0 if either is unknown or 0."""
        if self.recall is None:
            return None
        found = (self.precision or 0.0) + self.recall
        return 2 * (self.precision or 0.0) * self.recall / found if found else 0.0


def by_class(matrix: ConfusionMatrix) -> list[ClassQuality]:
    """Return the quality of each class in the order of the matrix."""
    return [_quality(matrix, number, row) for number, row in enumerate(matrix.counts)]


def _quality(matrix: ConfusionMatrix, number: int, row: Sequence[int]) -> ClassQuality:
    right, examples, predicted = row[number], sum(row), sum(counts[number] for counts in matrix.counts)
    named = zip(matrix.classes, row, strict=True)
    return ClassQuality(
        matrix.classes[number],
        examples,
        right / predicted if predicted else None,
        right / examples if examples else None,
        tuple(ClassCount(name, count, count / examples if examples else 0.0) for name, count in named),
    )


def lowest_recall(matrix: ConfusionMatrix) -> str:
    """Return the class with the lowest recall as text: `lowest recall 0.780 (sitting)`; empty without classes."""
    known = [(each.recall, each.name) for each in by_class(matrix) if each.recall is not None]
    if not known:
        return ""
    recall, name = min(known, key=lambda each: each[0])
    return f"lowest recall {digits(recall)} ({name})"
