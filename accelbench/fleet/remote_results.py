"""Results of nodes in a remote folder: answers of the gate, runs and bundles, downloaded to a temporary folder.

The local names are chosen here, because names in a store are untrusted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from accelbench.errors import UserError
from accelbench.pack import PART
from accelbench.pack.read import MAX_PARTS, MOST_BYTES
from accelbench.profiling.files import MAX_TEXT_BYTES
from accelbench.remote_folder import RemoteFile, RemoteFolder, batches

ANSWER, BUNDLE = "answer.json", "bundle.tar.xz"
"""Local file names."""
RUN_FILES = ("run.json", "records.jsonl")
"""Files of a run that are downloaded."""


@dataclass(frozen=True)
class ResultFile:
    """Answer of the gate, run directory or bundle."""

    path: Path
    """Local path; of a temporary file if the result is remote."""
    name: str
    """Path or URL in messages."""
    node: str
    """Name of the node if the result has none."""


@dataclass(frozen=True)
class RemoteResult:
    """Files of one result in a store."""

    url: str
    """URL in messages, which ends with the name of the file or run."""
    files: dict[str, RemoteFile]
    """Files by their local names."""

    @property
    def size(self) -> int:
        """Return the size of all files in bytes."""
        return sum(file.size for file in self.files.values())

    @property
    def problem(self) -> str:
        """Return the reason why the result is not downloaded; empty if there is none."""
        if any(file.size < 0 for file in self.files.values()):
            return "the file system does not list its size"
        limit = MAX_TEXT_BYTES if ANSWER in self.files else MOST_BYTES
        return f"{self.size:,} bytes, more than the limit of {limit:,}" if self.size > limit else ""

    def place(self, folder: Path) -> ResultFile:
        """Return the local result in this folder."""
        path = folder if RUN_FILES[0] in self.files else folder / (ANSWER if ANSWER in self.files else BUNDLE)
        name = PurePosixPath(self.url)
        return ResultFile(path, self.url, name.stem if ANSWER in self.files else name.name)


def download_results(url: str, skipped: list[str]) -> Iterator[ResultFile]:
    """Yield the results below a URL, each downloaded until the next one is requested.

    Appends a message to `skipped` for each result that is not downloaded. Raises UserError if the store cannot be
    reached or contains no result.
    """
    folder = RemoteFolder(url)
    results = find_results(folder)
    if not results:
        raise UserError(f"{folder.url} contains no result of a node")
    skipped += [f"{result.url} is not read: {result.problem}" for result in results if result.problem]
    for batch in batches((result for result in results if not result.problem), lambda result: result.size):
        with TemporaryDirectory(prefix="accelbench-") as scratch:
            yield from _download(folder, batch, Path(scratch), skipped)


def _download(
    remote: RemoteFolder, results: Sequence[RemoteResult], scratch: Path, skipped: list[str]
) -> Iterator[ResultFile]:
    folders = [scratch / str(number) for number in range(len(results))]
    targets: dict[Path, RemoteFile] = {}
    for folder, result in zip(folders, results, strict=True):
        folder.mkdir()
        targets |= {folder / name: file for name, file in result.files.items()}
    failed = remote.download(targets)
    for folder, result in zip(folders, results, strict=True):
        reasons = [reason for target, reason in failed.items() if target.parent == folder]
        if reasons:
            skipped.append(f"{result.url} cannot be read: {reasons[0]}")
        else:
            yield result.place(folder)


def find_results(remote: RemoteFolder) -> list[RemoteResult]:
    """Return the results in a remote folder, by the same rules as in a local folder, sorted by URL."""
    by_folder: dict[PurePosixPath, dict[str, RemoteFile]] = defaultdict(dict)
    for file in remote.files():
        path = PurePosixPath(file.name or PurePosixPath(file.path).name)
        if not any(part.startswith(".") for part in path.parts):
            by_folder[path.parent][path.name] = file
    runs = {folder for folder, files in by_folder.items() if RUN_FILES[0] in files}
    found = []
    for folder, files in by_folder.items():
        if folder in runs:
            url = remote.url_of("" if folder == PurePosixPath() else str(folder))
            found.append(RemoteResult(url, {name: files[name] for name in RUN_FILES if name in files}))
        elif runs.isdisjoint(folder.parents):
            found += _answers_and_bundles(remote, files)
    return sorted(found, key=lambda result: result.url)


def _answers_and_bundles(remote: RemoteFolder, files: dict[str, RemoteFile]) -> Iterator[RemoteResult]:
    """Yield the answers and bundles among the files of one folder, by name; all parts of a bundle are one result."""
    parts: dict[tuple[str, str], dict[str, RemoteFile]] = defaultdict(dict)
    for name, file in files.items():
        part = PART.fullmatch(name)
        if name.endswith(".json"):
            yield RemoteResult(remote.url_of(file.name), {ANSWER: file})
        elif ".tar" in name and part and max(len(part["number"]), len(part["count"])) <= len(str(MAX_PARTS)):
            parts[part["pack"], part["count"]][f"{BUNDLE}.part{part['number']}of{part['count']}"] = file
        elif ".tar" in name:
            yield RemoteResult(remote.url_of(file.name), {BUNDLE: file})
    for bundle in parts.values():
        yield RemoteResult(remote.url_of(min(file.name for file in bundle.values())), bundle)
