"""Modules that open files, start or read processes, or print without the common functions are listed with the reason.

`profiling/files.py` opens untrusted files, `profiling/child.py` has the command and the environment variables of child
processes, `profiling/ranks/channel.py` reads messages of processes, `accelbench/output/` prints.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

FOLDERS = ("accelbench", "profiling", "kernels", "workloads")
OPENERS = {"open", "read_text", "read_bytes", "write_text", "write_bytes"}
LOADERS = {"tomllib.load", "json.load", "np.load", "np.loadtxt", "zipfile.ZipFile"}
STARTERS = {"run", "Popen", "call", "check_call", "check_output"}
SYSTEM_STARTERS = {"fork", "forkpty", "system", "popen", "posix_spawn", "posix_spawnp"}
HEARERS = {"recv", "recv_into", "recvfrom", "recv_fds", "recvmsg", "communicate", "readline"}
WORDS = [
    "load",
    "listen",
    "create_server",
    "ZipFile",
    "subprocess",
    "os\\.",
    "Process",
    "print",
    "Console",
    "echo",
    "write",
    "executable",
]
TRACES = re.compile("|".join([*OPENERS, *HEARERS, *WORDS]))
"""Words of which a module with such a call contains at least one; other modules are not parsed."""
LISTENERS = {"listen", "create_server", "socketserver", "HTTPServer"}
REPLACERS = {"replace_file", "write_atomically"}


def name_of(function: ast.expr) -> str:
    """Return the dotted name of a called function; the name after a dot for a method of an expression."""
    if isinstance(function, ast.Name):
        return function.id
    if isinstance(function, ast.Attribute):
        return f"{name_of(function.value)}.{function.attr}"
    return ""


def owns(receiver: ast.expr) -> bool:
    """Return whether a path is in this package, by `__file__` or importlib.resources."""
    names = {node.id for node in ast.walk(receiver) if isinstance(node, ast.Name)}
    return bool(names & {"__file__", "files"})


def known(call: ast.Call) -> bool:
    """Return whether a call opens a file by a function of `files.py`, or a file of this package."""
    if isinstance(call.func, ast.Attribute):
        return owns(call.func.value) or name_of(call.func) == "RunStore.open"
    inner = call.args[0] if call.args else None
    return name_of(call.func) != "open" or (isinstance(inner, ast.Call) and name_of(inner.func) == "open_for_appending")


def replaced(nodes: list[ast.AST]) -> set[ast.AST]:
    """Return the writes to the new file inside calls of `replace_file`."""
    return {
        call
        for node in nodes
        if isinstance(node, ast.Call) and name_of(node.func).rpartition(".")[2] in REPLACERS
        for argument in node.args
        if isinstance(argument, ast.Lambda)
        for call in ast.walk(argument)
    }


def uses(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the direct uses in a module, with their lines."""
    source = path.read_text(encoding="utf-8")
    if not TRACES.search(source):
        return
    nodes = list(ast.walk(ast.parse(source)))
    written = replaced(nodes)
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr == "executable" and name_of(node) == "sys.executable":
            yield "python", node.lineno
        if not isinstance(node, ast.Call):
            continue
        name = name_of(node.func)
        before, _, last = name.rpartition(".")
        environment = next((keyword.value for keyword in node.keywords if keyword.arg == "env"), None)
        scrubbed = environment is not None and "child_environment" in ast.unparse(environment)
        if last in OPENERS and not (node in written or known(node)):
            yield "open", node.lineno
        if name in LOADERS:
            yield "open", node.lineno
        if before == "subprocess" and last in STARTERS and not scrubbed:
            yield "start", node.lineno
        if (before == "os" and (last in SYSTEM_STARTERS or last.startswith(("exec", "spawn")))) or name == ".Process":
            yield "start", node.lineno
        if last in HEARERS or name == "os.read":
            yield "hear", node.lineno
        if last in LISTENERS:
            yield "listen", node.lineno
        if (
            name in ("print", "Console")
            or last == "echo"
            or name.endswith(("stdout.write", "stderr.write", "buffer.write"))
        ):
            yield "print", node.lineno


def modules() -> list[Path]:
    """Return the modules of the product, without the links in `accelbench`."""
    return [
        path
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not any(parent.is_symlink() for parent in path.parents)
    ]


KERNELS_FILES = "a file of /proc or /sys"
IMPORTED = "the source of a module that is imported"
DECLARED = "a study of this package"
OWN_NEW = "a new file in a folder of this process's own, or one that a program has just written there for it"
EXCHANGE = "in the process of a user's script, which may lack this package: a file in a private folder of the parent"
NAMESPACE = "a file of /proc that makes a network of its own"
TO_PARENT = "the answer of a child process to its parent"
DATA = "a data set that the user named, or that was downloaded and matches its SHA-256"
FORKED = "no program is started: the process is copied"
AMONG_RANKS = "only where the run has several ranks"
RANKS = "a rank gets the secret"
DRIVER = "no process is heard: a GPU's library receives"
READERS = (
    *(
        f"data/{name}"
        for name in ("cache", "download", "embryos", "har", "imagenet", "imdb", "mnist", "texts", "unpack")
    ),
    "vision/pets",
)
EXCEPTIONS = {
    "accelbench/__init__.py": {"print": "nothing can be imported without the links"},
    "accelbench/__main__.py": {
        "print": "through `one_line`; the console takes a tenth of a second to import",
        "open": "/dev/null",
    },
    "accelbench/commands/launch.py": {"start": RANKS},
    "accelbench/commands/list.py": {"print": "each text is made plain; the console takes longer to import"},
    "accelbench/commands/schema.py": {"print": "a constant of this package"},
    "accelbench/doctor/gpu.py": {"hear": "the output of a trial, with a time limit"},
    "accelbench/doctor/gpu_trials.py": {"print": TO_PARENT},
    "accelbench/doctor/profiling.py": {
        "hear": "an empty line of our own process",
        "python": "with -P, of code that is here",
    },
    "accelbench/doctor/traced_process.py": {"print": TO_PARENT},
    "accelbench/execution/gathering.py": {"listen": AMONG_RANKS},
    "accelbench/execution/own_network.py": {"open": NAMESPACE, "start": FORKED},
    "accelbench/execution/runner.py": {"open": "/dev/null"},
    "accelbench/execution/secret.py": {"open": "O_EXCL and O_NOFOLLOW, with mode 0600"},
    "accelbench/execution/store.py": {"hear": "a line of a file, with its limit"},
    "accelbench/execution/template.py": {
        "open": KERNELS_FILES,
        "start": FORKED,
        "hear": "descriptors of the runner, which no channel carries, and the byte of a child",
    },
    "accelbench/execution/output_log.py": {
        "hear": "the output of a process, with a cap",
        "print": "the same",
        "open": "/dev/null",
    },
    "accelbench/gate/health.py": {
        "open": "the kernel log, and a new file in a folder of its own",
        "hear": "the kernel log",
    },
    "accelbench/gate/measuring.py": {"hear": "the end of a pipe", "start": "the program that this process becomes"},
    "accelbench/errors.py": {"python": "named in a message"},
    "accelbench/gpu_day/system_facts.py": {"python": "named in a fact"},
    "accelbench/notebook.py": {"open": OWN_NEW},
    "accelbench/output/console.py": {"print": "the one way"},
    "accelbench/pack/read.py": {"open": "counted, and a new file in a folder of its own"},
    "accelbench/pack/write.py": {"open": "a new file by a random name, and streams over it"},
    "accelbench/pair/script.py": {"python": "of a user's script, as the user starts it"},
    "accelbench/pair/server.py": {"print": TO_PARENT},
    "accelbench/remote_folder.py": {"open": "a new file of the caller's own"},
    "accelbench/report/table.py": {"open": "the new file of `write_atomically`"},
    "accelbench/reproduce/paper.py": {"open": DECLARED},
    "accelbench/session.py": {"start": FORKED},
    "kernels/report.py": {"print": "a table of our own"},
    "profiling/attach/begin.py": {"open": KERNELS_FILES},
    "profiling/attach/injected/sitecustomize.py": {"open": EXCHANGE},
    "profiling/attach/session.py": {"open": EXCHANGE, "hear": EXCHANGE},
    "profiling/benchmark.py": {"open": IMPORTED},
    "profiling/child.py": {"python": "the one way"},
    "profiling/devices/__main__.py": {"print": "make's check, which imports no console"},
    "profiling/files.py": {"open": "the one way", "hear": "a line of a file, with its limit"},
    "profiling/host/pyspy.py": {"open": OWN_NEW, "python": "the folder of py-spy"},
    "profiling/host/sampling.py": {"open": OWN_NEW},
    "profiling/host/workers.py": {"open": OWN_NEW},
    "profiling/machine/cause_counters.py": {"open": KERNELS_FILES},
    "profiling/machine/other_processes.py": {"open": KERNELS_FILES},
    "profiling/machine/environment/files.py": {"open": KERNELS_FILES},
    "profiling/machine/environment/tpu.py": {"print": TO_PARENT},
    "profiling/machine/environment/software.py": {"open": "pyproject.toml of this checkout"},
    "profiling/machine/nvidia/nvbench.py": {"open": OWN_NEW},
    "profiling/machine/nvidia/toolkit.py": {"open": "a header of CUDA"},
    "profiling/ranks/channel.py": {"hear": "the one way"},
    "profiling/ranks/rendezvous.py": {"listen": "the one way"},
    "profiling/telemetry/sampler.py": {"hear": "stderr of our own process", "python": "with -P, and -S to start fast"},
    "profiling/trace/chrome.py": {"open": OWN_NEW},
    "profiling/trace/converters.py": {"print": TO_PARENT},
    "profiling/trace/events.py": {"print": TO_PARENT},
    "profiling/trace/framework_profiler.py": {"open": OWN_NEW},
    "profiling/trace/scalars.py": {"open": OWN_NEW},
    "profiling/trace/xplane.py": {"open": OWN_NEW},
    "kernels/collectives/gpu_nccl.py": {"hear": DRIVER},
    "kernels/collectives/cpu_gloo.py": {"listen": AMONG_RANKS},
    "kernels/lib/ranks/lockstep.py": {"listen": AMONG_RANKS},
    "kernels/pingpong/cpu_tcp.py": {"listen": AMONG_RANKS},
    "workloads/distribution/ddp.py": {"listen": AMONG_RANKS},
    "workloads/distribution/parameter_server.py": {"listen": AMONG_RANKS},
    "kernels/lib/cpu/huge_pages.py": {"open": KERNELS_FILES},
    "kernels/lib/gpu/link.py": {"print": TO_PARENT},
    "kernels/lib/gpu/machine_code.py": {"open": OWN_NEW},
    "kernels/lib/ranks/mpi_process.py": {"listen": "a Unix socket in a folder of its own"},
    "kernels/lib/cpu/placing.py": {"open": KERNELS_FILES},
    "kernels/pingpong/gpu_nccl.py": {"hear": DRIVER},
    "kernels/storage/scratch_file.py": {"open": OWN_NEW},
    **{f"workloads/{name}.py": {"open": DATA} for name in READERS},
}
"""What a module does by itself, with the reason."""


def test_what_opens_starts_hears_or_prints_by_itself_is_in_the_list() -> None:
    found: dict[str, dict[str, list[int]]] = {}
    for path in modules():
        for what, line in uses(path):
            found.setdefault(str(path.relative_to(ROOT)), {}).setdefault(what, []).append(line)
    unlisted = {
        f"{name}:{lines[0]} {what}"
        for name, all_ in found.items()
        for what, lines in all_.items()
        if what not in EXCEPTIONS.get(name, {})
    }
    assert not unlisted
    outdated = {
        f"{name} {what}" for name, reasons in EXCEPTIONS.items() for what in reasons if what not in found.get(name, {})
    }
    assert not outdated


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("open(path)", "open"),
        ("path.open('w')", "open"),
        ("Path(name).read_text()", "open"),
        ("os.open(path, 0)", "open"),
        ("tomllib.load(file)", "open"),
        ("zipfile.ZipFile(path)", "open"),
        ("tarfile.open(path)", "open"),
        ("subprocess.run(['x'], env=os.environ)", "start"),
        ("subprocess.Popen(['x'])", "start"),
        ("os.execv('x', [])", "start"),
        ("get_context('fork').Process()", "start"),
        ("[sys.executable, '-m', 'x']", "python"),
        ("process.communicate()", "hear"),
        ("socket.recv(1)", "hear"),
        ("listener.listen()", "listen"),
        ("socket.create_server(address)", "listen"),
        ("click.echo(text)", "print"),
        ("Console()", "print"),
        ("print(text)", "print"),
        ("sys.stdout.write(text)", "print"),
    ],
)
def test_each_way_of_its_own_is_found(code: str, what: str, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(code)
    assert [found for found, _ in uses(tmp_path / "module.py")] == [what]


@pytest.mark.parametrize(
    "code",
    [
        "read_text(path)",
        "open(open_for_appending(path), 'ab')",
        "replace_file(path, lambda new: new.write_text('x'))",
        "Path(__file__).with_name('x').read_text()",
        "subprocess.run(['x'], env=child_environment(A='1'))",
        "RunStore.open(path)",
        "psutil.Process(1)",
        "console.print('x')",
    ],
)
def test_what_goes_the_one_way_is_not_found(code: str, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(code)
    assert list(uses(tmp_path / "module.py")) == []


def test_every_test_that_the_security_page_names_is_there() -> None:
    named = set(re.findall(r"`(tests/[^`]+)`", (ROOT / "SECURITY.md").read_text(encoding="utf-8")))
    assert len(named) > 20
    assert [name for name in sorted(named) if "def test_" not in (ROOT / name).read_text(encoding="utf-8")] == []
