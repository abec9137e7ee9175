"""Start of the observation: Python's `site` imports this module at the start of the script's interpreter."""

import os
import sys

FOLDER, PATH = "ACCELBENCH_ATTACH", "ACCELBENCH_ATTACH_PYTHONPATH"
"""Environment variables: the folder of the observation's files, and the script's own `PYTHONPATH`, if it has one."""
HERE = os.path.dirname(os.path.abspath(__file__))


def restore_environment() -> str | None:
    """Restore the environment variables and search path of the script, and return the folder of the observation."""
    folder, path = os.environ.pop(FOLDER, None), os.environ.pop(PATH, None)
    os.environ.pop("PYTHONPATH", None)
    if path is not None:
        os.environ["PYTHONPATH"] = path
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != HERE]
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
_folder = restore_environment()
if _folder is not None:
    try:
        load_observation(_folder)
    except Exception as error:  # noqa: BLE001 - an error of the observation must not end the script
        with open(os.path.join(_folder, "error"), "w", encoding="utf-8") as file:
            file.write(f"{type(error).__name__}: {error}")
load_shadowed()
