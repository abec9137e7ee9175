"""Resolve the pinned dependency sets: one file of `name==version` lines per set, without addresses.

pip's resolver is asked what it would install (`--dry-run`) into an empty environment; nothing is installed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
SETS = {
    "cpu": "cpu",
    "gpu": "gpu",
    "gpu13": "gpu13",
    "tpu": "tpu",
    "jax": "jax",
    "torch": "torch",
    "mpi": "mpi",
    "dev": "cpu,dev",
}


def resolve(extras: str) -> list[str]:
    """The exact versions that `pip install accelbench[EXTRA,…]` takes today, sorted by name."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        subprocess.run([*pip, "--report", str(report), f"{HERE.parent}[{extras}]"], check=True)
        found = [item["metadata"] for item in json.loads(report.read_text())["install"]]
    names = {item["name"].lower().replace("_", "-"): item["version"].partition("+")[0] for item in found}
    names.pop("accelbench")
    return [f"{name}=={version}" for name, version in sorted(names.items())]


def main() -> None:
    """Write the sets named on the command line, or all of them."""
    for name in sys.argv[1:] or SETS:
        print(f"resolving {name}")
        header = f"# Resolved by `make pins` for accelbench[{SETS[name]}]."
        (HERE / f"{name}.txt").write_text("\n".join([header, *resolve(SETS[name])]) + "\n")


if __name__ == "__main__":
    main()
