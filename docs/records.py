"""Print `docs/records.md`, the reference of all record fields, from the models and the docstrings of attributes."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections import deque
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel

sys.path.insert(0, str(Path(__file__).parents[1]))

from accelbench.execution.store import RunInfo
from accelbench.profiling.records.record import SCHEMA_VERSION, Record

HEAD = f"""# Records

A run is a folder with two files. `run.json` holds the plan, the environment and the status of the run. Each line of
`records.jsonl` is one record: a JSON object with all data of one repetition of a point. This page lists every field of
both files. `make records-page` generates it from the models in `profiling/records/` and
`accelbench/execution/store.py`; `accelbench schema record` and `accelbench schema run` print them as JSON Schema.

The schema has version {SCHEMA_VERSION}. A file of another version is refused, and the error contains its version.
An unknown value is null, and a field next to it holds the reason. Times are in seconds unless stated otherwise.
Examples with `jq`:

```sh
jq -r 'select(.status == "measured") | [.point.benchmark, .timing.summary.median] | @tsv' runs/ID/records.jsonl
jq '.point.params.n'         runs/ID/records.jsonl    # the value of the axis `n`
jq '.bound.dtype, .layout.replicas, .verification.passed' runs/ID/records.jsonl
jq '.environment.cpu.model'  runs/ID/run.json
```
"""


def main() -> None:
    """Print the page: the record, the run, then the types of their fields in order of first use."""
    print(HEAD)
    seen: set[type] = set()
    ahead: deque[type] = deque([Record, RunInfo])
    while ahead:
        model = ahead.popleft()
        if model in seen:
            continue
        seen.add(model)
        print(f"## {model.__name__}\n\n{_sentence(inspect.getdoc(model) or '')}\n")
        print("| field | type | default | meaning |\n|---|---|---|---|")
        for name, kind in get_type_hints(model).items():
            if name in _names(model):
                text, models = _type_text(kind)
                ahead.extend(models)
                cells = [f"`{name}`", text, _default(model, name), _meanings(model).get(name, "")]
                print(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
        print()


def _names(model: type) -> set[str]:
    """Return the names of the stored fields."""
    return set(model.model_fields if issubclass(model, BaseModel) else getattr(model, "__dataclass_fields__", {}))


def _meanings(model: type) -> dict[str, str]:
    """Return the docstring of each attribute, by name."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(body, ast.ClassDef)
    pairs = zip(body.body, body.body[1:], strict=False)
    return {
        field.target.id: _sentence(text.value.value)
        for field, text in pairs
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def _default(model: type, name: str) -> str:
    """Return the default value as source text; empty for a required field."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(body, ast.ClassDef)
    for line in body.body:
        if isinstance(line, ast.AnnAssign) and line.value and ast.unparse(line.target) == name:
            found = ast.unparse(line.value)
            json = {"None": "null", "False": "false", "True": "true", "field(default_factory=dict)": "{}"}
            found = json.get(found, found)
            return f"`{SCHEMA_VERSION if found == 'SCHEMA_VERSION' else found.replace(chr(39), chr(34))}`"
    return ""


def _type_text(kind: Any) -> tuple[str, list[type]]:
    """Return the text of a type, and the models in it."""
    models = list(_models(kind))
    names = {model.__name__: f"[{model.__name__}](#{model.__name__.lower()})" for model in models}
    text = kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)
    text = re.sub(r"(?<!')(?:\b\w+\.)+(?=\w)", "", text).replace("Mapping[", "dict[").replace("NoneType", "None")
    text = re.sub(r"Literal\[([^\]]*)\]", lambda found: found[1].replace("'", '"').replace(", ", " | "), text)
    text = re.sub(r"Optional\[([^\]]*)\]", r"\1 | None", text)  # as Python 3.14 writes it
    text = text.replace("None", "null")
    return re.sub(r"\w+", lambda word: names.get(word[0], word[0]), text), models


def _models(kind: Any) -> Iterator[type]:
    """Yield every model that a type names."""
    if isinstance(kind, type) and (is_dataclass(kind) or (not get_args(kind) and issubclass(kind, BaseModel))):
        yield kind
    for part in get_args(kind):
        yield from _models(part)


def _sentence(text: str) -> str:
    """Return a docstring on one line, its inner lines joined."""
    return " ".join(text.split())


if __name__ == "__main__":
    main()
