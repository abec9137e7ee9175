"""A file of a run, read as data: JSON of this schema, whose texts act on no terminal, or damage that is named."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from pydantic import TypeAdapter, ValidationError

from accelbench.errors import DataDamaged, UserError
from accelbench.output.plain_text import may_act, plain_data
from accelbench.profiling.files import open_regular
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import SCHEMA_VERSION
from accelbench.profiling.records.stored import Stored, first_fault

MOST_DIGITS = 18
"""The most digits of a whole number in a store, so that every one fits 64 bits."""
HALF_A_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")
"""The escape of half a character in JSON, which is Unicode only beside the other half."""
M = TypeVar("M", bound=Stored)
POINT = TypeAdapter(Point)


def parse(model: type[M], content: bytes, where: str) -> M:
    """Return what was stored there; `DataDamaged` names what is wrong with it, `UserError` another version of it."""
    try:
        text = content.decode("utf-8", errors="replace")
        data: Any = json.loads(text, parse_int=_whole, parse_constant=_refused)
        data = plain_data(data) if may_act(text) else data
    except RecursionError:
        raise DataDamaged(f"{where} is damaged: it is nested too deeply") from None
    except ValueError as error:
        raise DataDamaged(f"{where} is damaged: not JSON ({error})") from None
    if HALF_A_CHARACTER.search(content) and not _is_unicode(data):
        raise DataDamaged(f"{where} is damaged: a text in it is no Unicode")
    version = data.get("schema_version") if isinstance(data, dict) else None
    if version != SCHEMA_VERSION:
        older = ": accelbench 0.1 opens it" if version == 1 else ""
        raise UserError(f"{where} has schema version {version}; this accelbench reads version {SCHEMA_VERSION}{older}")
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise DataDamaged(f"{where} is damaged: {first_fault(error)}") from None


def point_of(line: bytes) -> str | None:
    """Return the point that a line is about, read no further than that takes; None where only all of it tells."""
    text = line.decode("utf-8", errors="replace")
    if line.endswith(b"\n") and not may_act(text):
        with suppress(ValueError, KeyError, TypeError, RecursionError):
            return str(POINT.validate_python(json.loads(text)["point"]))
    return None


@contextmanager
def opened(path: Path, max_bytes: int | None = None) -> Iterator[BinaryIO]:
    """Open a regular file of a run for reading; `DataDamaged` if that fails, or if reading in the block does."""
    try:
        with open_regular(path, max_bytes) as file:
            yield file
    except OSError as error:
        raise DataDamaged(f"cannot read {path}: {why(error)}") from None


def why(error: OSError) -> str:
    return error.strerror or str(error)


def _is_unicode(data: Any) -> bool:
    try:
        json.dumps(data, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _whole(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _refused(word: str) -> float:
    raise ValueError(f"{word} is no number")
