"""Reading files of a run as data: JSON that is checked against the schema, without terminal control characters."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from accelbench.errors import DataDamaged, UserError, reason_of
from accelbench.output.plain_text import may_have_control, plain_data
from accelbench.profiling.files import open_regular
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import SCHEMA_VERSION
from accelbench.profiling.records.stored import Stored, first_fault

MOST_DIGITS = 18
"""Maximum number of digits of a stored integer, so that each fits into 64 bits."""
SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
"""JSON escape of a surrogate, which is valid Unicode only in a pair."""
M = TypeVar("M", bound=Stored)
POINT = TypeAdapter(Point)


def parse(model: type[M], content: bytes, where: str, *, versioned: bool = True) -> M:
    """Parse and validate stored JSON; raise `DataDamaged` for invalid data, `UserError` for another schema version.

    A file that is not `versioned` has no schema version.
    """
    try:
        text = content.decode("utf-8", errors="replace")
        data: Any = json.loads(text, parse_int=_integer, parse_constant=_not_a_number)
        data = plain_data(data) if may_have_control(text) else data
    except RecursionError:
        raise DataDamaged(f"{where} is corrupt: it is nested too deeply") from None
    except ValueError as error:
        raise DataDamaged(f"{where} is corrupt: not JSON ({error})") from None
    if SURROGATE_ESCAPE.search(content) and not _is_unicode(data):
        raise DataDamaged(f"{where} is corrupt: it contains text that is not valid Unicode")
    version = data.get("schema_version") if isinstance(data, dict) else None
    if versioned and version != SCHEMA_VERSION:
        older = ": open it with accelbench 0.1" if version == 1 else ""
        raise UserError(f"{where} has schema version {version}; this accelbench reads version {SCHEMA_VERSION}{older}")
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise DataDamaged(f"{where} is corrupt: {first_fault(error)}") from None


def json_of(data: Stored) -> str:
    """Return the JSON text of data from another process; raise ValueError if `parse` would reject it."""
    try:
        text = data.model_dump_json()
    except PydanticSerializationError:
        raise ValueError("it contains text that is not valid Unicode") from None
    json.loads(text, parse_int=_integer)
    return text


def point_of(line: bytes) -> str | None:
    """Return the point of a record line without validating the rest; None if the whole line must be parsed."""
    text = line.decode("utf-8", errors="replace")
    if line.endswith(b"\n") and not may_have_control(text):
        with suppress(ValueError, KeyError, TypeError, RecursionError):
            return str(POINT.validate_python(json.loads(text)["point"]))
    return None


@contextmanager
def opened(path: Path, max_bytes: int | None = None) -> Iterator[BinaryIO]:
    """Open a regular file of a run for reading; `DataDamaged` if opening it, or reading it in this block, fails."""
    try:
        with open_regular(path, max_bytes) as file:
            yield file
    except OSError as error:
        raise DataDamaged(f"cannot read {path}: {reason_of(error)}") from None


def _is_unicode(data: Any) -> bool:
    try:
        json.dumps(data, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _integer(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _not_a_number(word: str) -> float:
    raise ValueError(f"{word} is not a number")
