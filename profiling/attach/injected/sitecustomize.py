"""Start of the observation: Python's `site` imports this module at the start of the script's interpreter."""

import os
import sys

FOLDER, PATH, RANKS = "ACCELBENCH_ATTACH", "ACCELBENCH_ATTACH_PYTHONPATH", "ACCELBENCH_ATTACH_RANKS"
"""Environment variables: the folder of the observation's files, the script's own `PYTHONPATH`, if it has one, and the
names of variables that may contain the rank, if a launcher starts ranks (`NAME=0`: rank 0 where NAME is set)."""
HERE = os.path.dirname(os.path.abspath(__file__))


def observed_folder() -> str | None:
    """Return the folder of the observation after restoring the script's environment; None without an observation.

    Under a launcher, each rank has a folder of its own. The launcher itself and its helpers are not observed; they pass
    the environment on to the ranks.
    """
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != HERE]
    names = os.environ.get(RANKS)
    if names is None:
        return restore_environment()
    entries = (entry.partition("=") for entry in names.split(",") if entry.partition("=")[0] in os.environ)
    rank = next((text for name, _, fixed in entries if (text := fixed or os.environ[name]).isdecimal()), None)
    if rank is None:
        return None
    del os.environ[RANKS]
    folder = restore_environment()
    return folder and folder_of_rank(folder, rank)


def folder_of_rank(folder: str, rank: str) -> str | None:
    """Create the folder of a rank; return None for a rank on another host, or one that was started again."""
    own = os.path.join(folder, f"{rank}-{folder.rpartition('-')[2]}")
    try:
        os.mkdir(own, 0o700)
        for name in ("commands", "events"):
            os.close(os.open(os.path.join(own, name), os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o600))
    except OSError:
        return None
    return own


def restore_environment() -> str | None:
    """Restore the environment variables of the script, and return the folder of the observation."""
    folder, path = os.environ.pop(FOLDER, None), os.environ.pop(PATH, None)
    os.environ.pop("PYTHONPATH", None)
    if path is not None:
        os.environ["PYTHONPATH"] = path
    return folder


def load_shadowed() -> None:
    """Import the `sitecustomize` that the script's interpreter would have imported without this one, if any."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    sys.modules.pop(__name__, None)
    spec = PathFinder.find_spec(__name__, sys.path)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules[__name__] = module
        spec.loader.exec_module(module)
    else:
        sys.modules[__name__] = _THIS


def load_observation(folder: str) -> None:
    """Load the package that contains this folder under a name of its own, and start the observation."""
    from importlib.util import module_from_spec, spec_from_file_location

    package = os.path.dirname(HERE)
    name = "_accelbench_attach"
    spec = spec_from_file_location(name, os.path.join(package, "__init__.py"), submodule_search_locations=[package])
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    from _accelbench_attach.begin import begin  # type: ignore[import-not-found]

    begin(folder)


_THIS = sys.modules[__name__]
_folder = observed_folder()
if _folder is not None:
    try:
        load_observation(_folder)
    except Exception as error:  # noqa: BLE001 - an error of the observation must not end the script
        with open(os.path.join(_folder, "error"), "w", encoding="utf-8") as file:
            file.write(f"{type(error).__name__}: {error}")
load_shadowed()
