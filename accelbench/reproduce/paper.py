"""A published study in a TOML file: citation, suites, claims with the rules that decide them, and notes."""

from __future__ import annotations

import math
import re
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from accelbench.environment.session_limits import LimitName
from accelbench.errors import UserError, reason_of
from accelbench.execution.suite import RENAMED
from accelbench.profiling.files import read_regular
from accelbench.profiling.records.stored import Share, Stored, first_fault
from accelbench.profiling.text import did_you_mean
from accelbench.reproduce.containers import ContainerRule
from accelbench.reproduce.cores import FasterThanCoresRule, NeedsCoresRule
from accelbench.reproduce.observations import PointSelection
from accelbench.reproduce.rules import EqualRule, GrowthRule, OpenRule, OverheadRule, QualityRule, RatioRule, SlopeRule

PAPERS = files("accelbench") / "papers"
AnyRule = Annotated[
    ContainerRule
    | EqualRule
    | FasterThanCoresRule
    | GrowthRule
    | NeedsCoresRule
    | OpenRule
    | OverheadRule
    | RatioRule
    | SlopeRule
    | QualityRule,
    Field(discriminator="name"),
]


class Statement(Stored):
    """Paraphrased statement of a document."""

    id: str
    says: str
    published: str = ""
    """Published value."""
    where: str = ""
    """Table, figure or section of the document."""


class PublishedArithmetic(Stored):
    """Sum or product of published numbers, and the published result."""

    sum: tuple[float, ...] = ()
    product: tuple[float, ...] = ()
    result: float
    within: Share = 0.0
    """Relative tolerance, for a rounded result."""

    @model_validator(mode="after")
    def _has_one_operation(self) -> PublishedArithmetic:
        if bool(self.sum) == bool(self.product):
            raise ValueError("expected numbers in either sum or product")
        return self

    @property
    def verdict(self) -> Literal["confirmed", "refuted"]:
        """Return whether the published result follows from the published numbers."""
        found = math.fsum(self.sum) if self.sum else math.prod(self.product)
        return "confirmed" if math.isclose(found, self.result, rel_tol=max(self.within, 1e-12)) else "refuted"

    def __str__(self) -> str:
        sign, numbers = (" + ", self.sum) if self.sum else (" × ", self.product)
        equals = "≈" if self.within else "="
        return f"{sign.join(f'{number:,.15g}' for number in numbers)} {equals} {self.result:,.15g}"


class Note(Statement):
    """Statement that cannot be measured; it has a verdict only if it is arithmetic on published numbers."""

    note: str
    """Comment on the statement."""
    arithmetic: PublishedArithmetic | None = None

    @property
    def decision(self) -> str:
        """Return `no verdict`, or the verdict on the arithmetic with the numbers."""
        return f"{self.arithmetic.verdict} by arithmetic: {self.arithmetic}" if self.arithmetic else "no verdict"


class Claim(Statement):
    """Statement that measurements decide."""

    points: tuple[PointSelection, ...] = ()
    rule: AnyRule
    not_decided: str = ""
    """Part of the claim that the verdict does not cover."""

    @model_validator(mode="after")
    def _fits_its_rule(self) -> Claim:
        if misfit := self.rule.misfit(self.points):
            raise ValueError(misfit)
        return self


class Citation(Stored):
    """Bibliographic reference of the document."""

    authors: str
    title: str
    venue: str = ""
    year: int

    def __str__(self) -> str:
        return f"{self.authors} ({self.year}). “{self.title}”." + f" {self.venue}." * bool(self.venue)


class Hardware(Stored):
    """Device of the study; the page compares its vendor's peaks with empirical peaks of the runs."""

    device: str
    called: str
    """Name in the document."""
    card: str = ""
    """Name in the table of vendors' peaks."""


class PublishedLimit(Stored):
    """Limit of a session on the study's hosted runtime; the page shows the limit of this machine next to it."""

    limit: LimitName
    published: str = ""
    """Published value; empty if unknown."""


class Paper(Stored):
    """Study with its claims and notes."""

    name: str
    citation: Citation
    about: str
    suite: str
    small: str = ""
    """Suite for two cores and minutes; by default `suite`."""
    processes: Annotated[int, Field(ge=1)] = 1
    """Number of processes that measure together."""
    fetch: tuple[str, ...] = ()
    """Data sets for claims about quality, as named by `accelbench data fetch`."""
    hardware: tuple[Hardware, ...] = ()
    session: tuple[PublishedLimit, ...] = ()
    claim: Annotated[tuple[Claim, ...], Field(min_length=1)]
    note: tuple[Note, ...] = ()

    @property
    def benchmarks(self) -> set[str]:
        """Return the benchmarks of its claims."""
        return {points.benchmark for claim in self.claim for points in claim.points}

    def within(self, folder: Path) -> Paper:
        """Return the study with the paths of its suites relative to `folder`, which contains its file."""
        suites = {"suite": self.suite, "small": self.small}
        paths = {key: str(folder / name) for key, name in suites.items() if name.endswith(".toml")}
        return self.model_copy(update=paths)


def paper_names() -> list[str]:
    """Return the names of the built-in studies."""
    return sorted(file.name.removesuffix(".toml") for file in PAPERS.iterdir() if file.name.endswith(".toml"))


def load_paper(name_or_path: str) -> Paper:
    """Return the built-in study with that name, or read the study from that TOML file."""
    path = Path(name_or_path)
    if name_or_path in paper_names():
        file = PAPERS / f"{name_or_path}.toml"
        return parse_paper(name_or_path, file.read_text(encoding="utf-8"), str(file))
    if new := RENAMED.get(name_or_path):
        raise UserError(f"the study {name_or_path} is now called {new}")
    if path.suffix != ".toml":
        names = paper_names()
        near = did_you_mean(name_or_path, names) or f": choose one of {', '.join(names)}, or a .toml file"
        raise UserError(f"unknown study {name_or_path!r}{near}")
    try:
        text = read_regular(path, follow_link=True).decode("utf-8")
    except UnicodeDecodeError:
        raise UserError(f"cannot read the study {path}: it is not UTF-8 text") from None
    except (OSError, ValueError) as error:  # ValueError: its name has a null byte
        raise UserError(f"cannot read the study {path}: {reason_of(error)}") from None
    return parse_paper(path.stem, text, str(path)).within(path.parent)


def parse_paper(name: str, text: str, file: str) -> Paper:
    """Return the study in a TOML text; raise `UserError` with the file and line of the first error."""
    try:
        paper = Paper.model_validate({"name": name} | tomllib.loads(text))
    except RecursionError:
        raise UserError(f"{file} is nested too deeply") from None
    except ValidationError as error:
        place, fault = _first_fault(error)
        raise UserError(f"{file} line {line_of(text, place)}: {fault}") from None
    except ValueError as error:
        raise UserError(f"{file} is not valid TOML: {error}") from None
    seen: set[str] = set()
    for table, statements in (("claim", paper.claim), ("note", paper.note)):
        for number, statement in enumerate(statements):
            if statement.id in seen:
                raise UserError(f"{file} line {line_of(text, (table, number, 'id'))}: duplicate id {statement.id}")
            seen.add(statement.id)
    return paper


def _first_fault(error: ValidationError) -> tuple[tuple[Any, ...], str]:
    """Return the location of the first error, and the error as text."""
    first = error.errors(include_input=False, include_url=False)[0]
    place, context = first["loc"], first.get("ctx", {})
    if first["type"] == "union_tag_invalid":
        rules = context["expected_tags"].replace("'", "")
        return (*place, "name"), f"unknown rule {context['tag']!r} (choose {rules})"
    if first["type"] == "union_tag_not_found":
        return place, f"{'.'.join(map(str, place))}.name is missing"
    return place, first_fault(error)


def line_of(text: str, place: tuple[Any, ...]) -> int:
    """Return the 1-based line of a location in the TOML text, or of its table if the key is missing."""
    lines, begin, words = text.splitlines(), 0, []
    end = len(lines)
    for word, number in zip(place, (*place[1:], None), strict=True):
        if isinstance(word, int):
            continue
        words.append(word)
        heads = [at for at in range(begin, end) if lines[at].strip() == f"[[{'.'.join(words)}]]"]
        if isinstance(number, int) and number < len(heads):  # tables in an array have no heads
            begin = heads[number]
            end = next((head for head in heads if head > begin), end)
        else:
            key = re.compile(rf"\s*(\[+claim\.)?{re.escape(word)}\s*(=|\])")
            begin = next((at for at in range(begin, end) if key.match(lines[at])), begin)
    return begin + 1
