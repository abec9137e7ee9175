"""`python -m accelbench.profiling.devices DEVICE` checks for a device before anything is installed (`make bench`)."""

from __future__ import annotations

import sys

from accelbench.profiling.devices import DeviceMissing, device_kind, find_device, kinds


def main(name: str) -> int:
    """Print the default package set of a device; return 2, after an error message, if the device is missing.

    `auto` is the first kind of device of this machine, with or without its libraries in Python.
    """
    try:
        if name not in ("auto", *kinds()):
            raise DeviceMissing(f"unknown device {name!r}", f"choose {', '.join(['auto', *kinds()])}")
        print(device_kind(find_device(name, usable=False)).package_set)
    except DeviceMissing as missing:
        print(f"accelbench: {missing}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
