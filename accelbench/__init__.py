"""How fast a machine is for GPU computing and deep learning, and what limits it: the package and its command line."""

import os
import sys

__version__ = "0.2.0"

# An archive that was unpacked without symbolic links has a file of a few bytes there.
if not os.path.isdir(os.path.join(os.path.dirname(__file__), "profiling")):
    sys.exit(
        "accelbench: accelbench/profiling is no symbolic link to ../profiling in this checkout: clone it by git "
        "(git config core.symlinks true), or install the package by pip"
    )
