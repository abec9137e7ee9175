"""Resolve the pinned dependency sets: one file of `name==version` lines per set, without addresses.

uv resolves for every supported Python version on Linux and installs nothing. A package that only some of them need, or
that they need in different versions, has a marker.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from install import NEWEST, OLDEST
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HERE = Path(__file__).parent
PYTHONS = [f"3.{minor}" for minor in range(OLDEST[1], NEWEST[1] + 1)]
SETS = {
    "cpu": "cpu",
    "gpu": "gpu",
    "gpu13": "gpu13",
    "tpu": "tpu",
    "tpu-tensorflow": "tpu-tensorflow",
    "jax": "jax",
    "torch": "torch",
    "mpi": "mpi",
    "dev": "cpu,dev",
}
COMPILE = (
    *(sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate"),
    *("--universal", "--fork-strategy", "fewest", "--python-version", PYTHONS[0], "pyproject.toml"),
)


def resolve(extras: str) -> list[str]:
    """Return the newest versions that `accelbench[EXTRA,...]` can have today, sorted by name."""
    options = [option for extra in extras.split(",") for option in ("--extra", extra)]
    found = subprocess.run([*COMPILE, *options], check=True, stdout=subprocess.PIPE, text=True, cwd=HERE.parent).stdout
    return [pin for line in found.splitlines() if (pin := pinned(line))]


def pinned(line: str) -> str:
    """Return a line of uv's output with no more of its marker than the supported Python versions need.

    The text is empty for a package of other systems.
    """
    requirement = Requirement(line)
    name = f"{canonicalize_name(requirement.name)}{requirement.specifier}"
    marker = requirement.marker
    needing = [
        python
        for python in PYTHONS
        if marker is None or marker.evaluate({"python_version": python, "python_full_version": f"{python}.0"})
    ]
    if len(needing) in (0, len(PYTHONS)):
        return name if needing else ""
    if needing[0] == PYTHONS[0]:
        return f'{name} ; python_version <= "{needing[-1]}"'
    return f'{name} ; python_version >= "{needing[0]}"'


def main() -> None:
    """Write the sets named on the command line, or all of them."""
    for name in sys.argv[1:] or SETS:
        print(f"resolving {name}")
        header = f"# Resolved by `make pins` for accelbench[{SETS[name]}]."
        (HERE / f"{name}.txt").write_text("\n".join([header, *resolve(SETS[name])]) + "\n")


if __name__ == "__main__":
    main()
