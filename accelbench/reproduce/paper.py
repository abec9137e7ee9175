"""A published study as a file: what it is, which suite measures it, and its claims with the rules that decide them."""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, model_validator

from accelbench.errors import UserError
from accelbench.reproduce.points import Points
from accelbench.reproduce.rules.cores import FasterThanCores, MoreCoresNeeded
from accelbench.reproduce.rules.facts import Arithmetic, Exact, HarPeople, RuntimeIs, Stated, VendorStates
from accelbench.reproduce.rules.growth import Between, Rises, Steeper
from accelbench.reproduce.rules.hosts import CloudAlike, CloudSlower, FrameworksApart, MoreDevices
from accelbench.reproduce.rules.memory import MemoryMattersLess
from accelbench.reproduce.rules.quality import BestAt, QualityHolds
from accelbench.reproduce.rules.ratios import Crosses, Explained, Ordered, RatioGrows, Slower
from accelbench.reproduce.rules.steps import OverheadLeft
from accelbench.reproduce.rules.undecided import Shown, Undecided
from profiling.near_misses import suggest
from profiling.records.stored import Stored, first_fault

PAPERS = files("accelbench") / "papers"
AnyRule = Annotated[
    Arithmetic
    | BestAt
    | Between
    | CloudAlike
    | CloudSlower
    | Crosses
    | Exact
    | Explained
    | FasterThanCores
    | FrameworksApart
    | HarPeople
    | MemoryMattersLess
    | MoreCoresNeeded
    | MoreDevices
    | Ordered
    | OverheadLeft
    | QualityHolds
    | RatioGrows
    | Rises
    | RuntimeIs
    | Shown
    | Slower
    | Stated
    | Steeper
    | Undecided
    | VendorStates,
    Field(discriminator="name"),
]


class Claim(Stored):
    """One claim of a document."""

    id: str
    says: str
    """The claim in our own words."""
    published: str = ""
    """The figure that the document states, in words; empty where it states none."""
    where: str = ""
    """The table, figure or section of the document; empty where it is not known."""
    points: tuple[Points, ...] = ()
    """The points that decide it, of each benchmark."""
    rule: AnyRule
    """The rule that decides it."""
    not_decided: str = ""
    """What the verdict does not cover."""

    @model_validator(mode="after")
    def _fits_its_rule(self) -> Claim:
        if misfit := self.rule.misfit(self.points):
            raise ValueError(misfit)
        return self


class Citation(Stored):
    """What names the document, as far as it is known."""

    authors: str
    title: str
    venue: str = ""
    year: int

    def __str__(self) -> str:
        return f"{self.authors} ({self.year}). “{self.title}”." + f" {self.venue}." * bool(self.venue)


class Hardware(Stored):
    """A device that the study measured on, whose vendor's figures are shown beside today's ceilings."""

    device: str
    called: str
    """The device in the document's words."""
    card: str = ""
    """The name by which our table of vendors' figures knows it; empty where it has none."""


class Paper(Stored):
    """A study and its claims."""

    name: str
    citation: Citation
    about: str
    """What the study is, in a sentence."""
    suite: str
    """The suite that measures it."""
    small: str
    """The suite that measures it on two cores in minutes."""
    processes: Annotated[int, Field(ge=1)] = 1
    """The number of processes that have to measure together."""
    fetch: tuple[str, ...] = ()
    """The data sets that its claims about quality need, by their names for `accelbench data fetch`."""
    hardware: tuple[Hardware, ...] = ()
    claim: Annotated[tuple[Claim, ...], Field(min_length=1)]

    @property
    def benchmarks(self) -> set[str]:
        """Return the benchmarks that its claims ask for."""
        return {points.benchmark for claim in self.claim for points in claim.points}


def paper_names() -> list[str]:
    """Return the names of the studies whose claims are known."""
    return sorted(file.name.removesuffix(".toml") for file in PAPERS.iterdir() if file.name.endswith(".toml"))


def load_paper(name_or_path: str) -> Paper:
    """Return the study of that name, or of that TOML file; `UserError` naming those there are, or what is wrong."""
    path = Path(name_or_path)
    if name_or_path in paper_names():
        file = PAPERS / f"{name_or_path}.toml"
        return parse_paper(name_or_path, file.read_text(encoding="utf-8"), str(file))
    if path.suffix != ".toml":
        raise UserError(f"no paper is called {name_or_path!r}{suggest(name_or_path, paper_names())}")
    try:
        return parse_paper(path.stem, path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError:
        raise UserError(f"cannot read the paper {path}: it is not UTF-8 text") from None
    except (OSError, ValueError) as error:  # ValueError: its name has a null byte
        raise UserError(f"cannot read the paper {path}: {getattr(error, 'strerror', error)}") from None


def parse_paper(name: str, text: str, file: str) -> Paper:
    """Return the study of a file's text; `UserError` with the file and the line of what is wrong."""
    try:
        paper = Paper.model_validate({"name": name} | tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{file} is not valid TOML: {error}") from None
    except RecursionError:
        raise UserError(f"{file} is nested too deeply") from None
    except ValidationError as error:
        place = error.errors(include_input=False, include_url=False, include_context=False)[0]["loc"]
        raise UserError(f"{file} line {line_of(text, place)}: {first_fault(error)}") from None
    ids = [claim.id for claim in paper.claim]
    for number, claim in enumerate(paper.claim):
        if claim.id in ids[:number]:
            raise UserError(f"{file} line {line_of(text, ('claim', number, 'id'))}: {claim.id} is there twice")
    return paper


def line_of(text: str, place: tuple[Any, ...]) -> int:
    """Return the number of the line, from 1, at which what is at that place of a paper's file stands, or should."""
    lines, begin = text.splitlines(), 0
    end = len(lines)
    words = [word for word in place if isinstance(word, str)]
    if place[:1] == ("claim",) and len(place) > 1:
        heads = [number for number, line in enumerate(lines) if line.strip() == "[[claim]]"]
        begin = heads[place[1]] if place[1] < len(heads) else 0  # claims in an array have no heads
        end = next((head for head in heads if head > begin), end)
        words = words[1:]
    for word in words:
        key = re.compile(rf"\s*(\[+claim\.)?{re.escape(word)}\s*(=|\])")
        begin = next((number for number in range(begin, end) if key.match(lines[number])), begin)
    return begin + 1
