"""`python -m tests.ptx.link sm_90a` links Numba's link-time code (standard input) and prints its PTX.

It runs in a process of its own: nvJitLink 13.5 corrupts the memory of a process that links dozens of kernels.
"""

from __future__ import annotations

import sys

from cuda.bindings import nvjitlink


def main() -> int:
    code, architecture = sys.stdin.buffer.read(), sys.argv[1]
    options = [f"-arch={architecture}", "-lto", "-ptx"]
    handle = nvjitlink.create(len(options), options)
    nvjitlink.add_data(handle, nvjitlink.InputType.LTOIR, code, len(code), "kernel")
    nvjitlink.complete(handle)
    text = bytearray(nvjitlink.get_linked_ptx_size(handle))
    nvjitlink.get_linked_ptx(handle, text)
    sys.stdout.buffer.write(text.rstrip(b"\0"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
