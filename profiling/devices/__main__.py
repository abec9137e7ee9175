"""`python -m accelbench.profiling.devices DEVICE` looks for a device before anything is installed (`make
bench`)."""

from __future__ import annotations

import sys

from accelbench.profiling.devices import DeviceMissing, device_kind, kinds


def main(name: str) -> int:
    """Return 0 if the device of that name is there, whatever Python has, and else 2, after saying what to do."""
    try:
        if name not in ("auto", *kinds()):
            raise DeviceMissing(f"no device is called {name!r}", f"choose {', '.join(['auto', *kinds()])}")
        if name != "auto":
            device_kind(name).find()
    except DeviceMissing as missing:
        print(f"accelbench: {missing}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
