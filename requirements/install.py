"""Create an environment and install one dependency set of this checkout into it, with its pinned versions.

Usage: python3 requirements/install.py FOLDER [SET]. Without a set, only the environment is created.
An image is built by: python3 requirements/install.py FOLDER LOCK TOOLS, with a lock file and an environment with uv.

uv downloads and unpacks in parallel, with pip's own settings (index, certificates, proxy). If uv is missing or fails,
pip installs the same versions. A file lock makes a second installation into the same environment wait for the first.
The script runs on the system's Python before anything is installed: the standard library only.
"""

from __future__ import annotations

import ast
import fcntl
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OLDEST, NEWEST = (3, 11), (3, 15)
NEWEST_PINNED = (3, 14)
"""The newest Python that the pinned versions have wheels for; with a later one, the newest versions are installed."""
UV_VARIABLES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "no-index": "UV_NO_INDEX",
    "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY",
    "trusted-host": "UV_INSECURE_HOST",
}
"""pip's settings, and the environment variables that give them to uv, which does not read pip's."""

UNREACHABLE = "the package index cannot be reached"


class InstallError(Exception):
    """An installation that cannot succeed, with the reason and the remedy as text."""


def create_environment(folder: Path) -> Path:
    """Create a virtual environment unless there is one; return its interpreter."""
    python = folder / "bin" / "python"
    if python.exists():
        return python
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        needed = " to ".join(".".join(map(str, version)) for version in (OLDEST, NEWEST))
        found = f"{sys.executable} is Python {sys.version.split()[0]}"
        raise InstallError(f"accelbench needs Python {needed}, but {found}: make PYTHON=python3.12 ...")
    for commands in (
        [[sys.executable, "-m", "venv", str(folder)]],
        # Without Debian's python3-venv: the pip of the system installs one into the environment.
        [
            [sys.executable, "-m", "venv", "--without-pip", str(folder)],
            [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "pip"],
        ],
    ):
        if all(subprocess.run(command, capture_output=True).returncode == 0 for command in commands):
            return python
    python.unlink(missing_ok=True)  # it would pass for an environment
    raise InstallError(f"{sys.executable} cannot create virtual environments: on Debian, apt install python3-venv")


def install(python: Path, dependencies: str) -> None:
    """Install the checkout with one dependency set, such as `cpu` or `dev`, into the environment of `python`."""
    extras = "cpu,dev" if dependencies == "dev" else dependencies
    version = _version(python)
    pins = ["--constraint", f"requirements/{dependencies}.txt"] if version <= NEWEST_PINNED else []
    what = ["--quiet", *pins, "--editable", f".[{extras}]"]
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    failure = _install_by_uv(python, pip, what)
    if not failure:
        return
    print(f"installing with pip, which takes longer, because uv failed: {failure}", file=sys.stderr)
    newer_pip = [*pip, "install", "--quiet", "pip>=21.3"]  # an older one installs no editable package without setup.py
    by_pip = newer_pip, [*pip, "install", *what]
    if UNREACHABLE in failure:
        # A folder of packages may still have all that is needed; the index is not waited for a second time.
        environment = {**os.environ, "PIP_RETRIES": "0"}
        error = next(filter(None, (_run(command, environment) for command in by_pip)), "")
        if error:
            package = re.search(r"(?:No matching distribution found for|Failed to fetch:) (\S+)", f"{error} {failure}")
            missing = f"{package[1]} was not found" if package else error
            raise InstallError(
                f"the {dependencies} set cannot be installed: {missing}, because {UNREACHABLE}; "
                "check the network, and the index-url, proxy and cert of `pip config list`"
            )
    elif any(subprocess.run(command, cwd=ROOT).returncode for command in by_pip):
        newer = f"; packages may lack wheels for Python {'.'.join(map(str, version))}: make PYTHON=python3.13 ..."
        untried = "" if pins else newer
        raise InstallError(f"the {dependencies} set cannot be installed: pip's error is above{untried}")


def install_locked(folder: Path, lock: Path, tools: Path) -> None:
    """Install a lock file into one environment by the uv in another, `tools`. Nothing is resolved.

    Every file is verified by its SHA-256. The build compiles the modules that it keeps.
    """
    python = str(folder / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    what = ["--quiet", "--only-binary", ":all:", "--no-deps", "--require-hashes", "--requirement", str(lock)]
    uv = [str(tools / "bin" / "python"), "-m", "uv", "pip", "install", "--python", python]
    failure = _run([*uv, "--no-cache", *what], _uv_environment(pip))
    if failure:
        print(f"installing with pip, which takes longer, because uv failed: {failure}", file=sys.stderr)
        options = ["--no-compile", "--no-cache-dir", "--root-user-action", "ignore"]
        if subprocess.run([*pip, "install", *options, *what]).returncode:
            raise InstallError(f"{lock.name} cannot be installed: pip's error is above")


def _version(python: Path) -> tuple[int, ...]:
    """Return the major and minor version of an interpreter."""
    show = "import sys; print(*sys.version_info[:2])"
    return tuple(map(int, subprocess.run([python, "-c", show], check=True, stdout=subprocess.PIPE).stdout.split()))


def _install_by_uv(python: Path, pip: list[str], what: list[str]) -> str:
    """Install by uv; return the reason of a failure, or an empty text."""
    pinned = [line for line in (ROOT / "requirements" / "dev.txt").read_text().splitlines() if line.startswith("uv==")]
    failure = _run([*pip, "install", "--quiet", *pinned])
    if failure:
        return failure
    uv = [str(python), "-m", "uv", "pip", "install", "--python", str(python)]
    return _run([*uv, *what], _uv_environment(pip))


def _uv_environment(pip: list[str]) -> dict[str, str]:
    """Return this process's environment variables with pip's settings for uv."""
    settings = subprocess.run([*pip, "config", "list"], capture_output=True, text=True).stdout
    return {**uv_variables(settings), **os.environ}


def uv_variables(settings: str) -> dict[str, str]:
    """Return the environment variables that give pip's settings to uv, from the output of `pip config list`."""
    found = {}
    # "global.timeout='60'", "install.no-index='1'", ":env:.cert='...'": the later of these overrides the earlier.
    for section in ("global.", "install.", ":env:."):
        for line in settings.splitlines():
            name, _, value = line.partition("=")
            if name.startswith(section) and name[len(section) :] in UV_VARIABLES:
                found[name[len(section) :]] = " ".join(ast.literal_eval(value).split())
    variables = {UV_VARIABLES[name]: value for name, value in found.items()}
    if "UV_FIND_LINKS" in variables:
        variables["UV_FIND_LINKS"] = variables["UV_FIND_LINKS"].replace(" ", ",")
    if "UV_INDEX" in variables:
        variables["UV_INDEX_STRATEGY"] = "unsafe-best-match"  # the best version of all indexes, as pip takes it
    return variables


def _run(command: list[str], environment: Mapping[str, str] | None = None) -> str:
    """Run a command in the checkout; return the error of a failure as one line, or an empty text."""
    process = subprocess.run(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True, errors="replace")
    if process.returncode == 0:
        sys.stderr.write(process.stderr)
        return ""
    lines = [line.strip() for line in process.stderr.splitlines() if line.strip()]
    first = next((number for number, line in enumerate(lines) if line.lower().startswith("error:")), 0)
    failure = " ".join(lines[first:]) or f"exit status {process.returncode}"
    # pip reports the repeated requests as warnings, and ends as if the index had no such package.
    lost_by_pip = "connection broken by" in process.stderr and "(from versions: none)" in failure
    lost_by_uv = "client error (Connect)" in failure
    return f"{failure} ({UNREACHABLE})" if lost_by_pip or lost_by_uv else failure


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of an environment, after waiting for its other holder."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".installing.lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another installation into {folder}", file=sys.stderr)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_current(stamp: Path, dependencies: str) -> bool:
    """Return whether the stamp of a set is newer than what the set is made of."""
    sources = [ROOT / "pyproject.toml", ROOT / "requirements" / f"{dependencies}.txt"]
    return stamp.exists() and all(stamp.stat().st_mtime >= source.stat().st_mtime for source in sources)


def main(folder: Path, dependencies: str = "") -> None:
    """Create the environment, install the set unless it is current, and leave a stamp `.installed-SET`."""
    if not os.access(ROOT, os.W_OK):  # the build of an editable package writes there
        raise InstallError(f"{ROOT} cannot be written: copy it to a folder of your own")
    with locked(folder):
        python = create_environment(folder)
        stamp = folder / f".installed-{dependencies}"
        if not dependencies or is_current(stamp, dependencies):
            return
        print(f"installing the {dependencies} set into {folder} (once; it downloads about a gigabyte)", flush=True)
        install(python, dependencies)
        stamp.touch()
        if dependencies == "dev":  # it contains the CPU set
            (folder / ".installed-cpu").touch()


if __name__ == "__main__":
    try:
        if len(sys.argv) == 4:
            install_locked(*(Path(name).absolute() for name in sys.argv[1:]))
        else:
            main(Path(sys.argv[1]), *sys.argv[2:])
    except InstallError as error:
        sys.exit(f"accelbench: {error}\naccelbench: nothing was measured")
    except OSError as error:
        sys.exit(f"accelbench: the environment cannot be created: {error}\naccelbench: nothing was measured")
