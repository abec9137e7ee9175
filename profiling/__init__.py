"""The way in which anything is measured, whatever it is: no benchmark, model or axis is known here by its name."""

from pathlib import Path

# A program that is started in a checkout has the folder on its path under this name, too.
if __name__ != "accelbench.profiling":
    raise ImportError("the package profiling is imported as accelbench.profiling", name=__name__)

PROJECT = Path(__file__).absolute().parents[2]
"""The folder that contains the package `accelbench`: the root of a checkout, or site-packages."""
