"""Linking of link-time code from standard input to machine code on standard output: `python -m … sm_90a`.

What the assembler says of registers and memory goes to standard error. nvJitLink is given the options that Numba gives
it on a device. It has a process of its own here: one that links dozens of kernels, as no measurement does, corrupts its
memory sooner or later (seen in 13.5).
"""

from __future__ import annotations

import sys

from cuda.bindings import nvjitlink


def main() -> int:
    """Link what is read; the exit status is 1, with nvJitLink's own words, where it cannot be linked."""
    code, architecture = sys.stdin.buffer.read(), sys.argv[1]
    options = [f"-arch={architecture}", "-lto", "-Xptxas=-v"]
    handle = nvjitlink.create(len(options), options)
    try:
        nvjitlink.add_data(handle, nvjitlink.InputType.LTOIR, code, len(code), "kernel")
        nvjitlink.complete(handle)
    except nvjitlink.nvJitLinkError as error:
        log = bytearray(nvjitlink.get_error_log_size(handle))
        nvjitlink.get_error_log(handle, log)
        print(error, log.decode(), file=sys.stderr)
        return 1
    log = bytearray(nvjitlink.get_info_log_size(handle))
    nvjitlink.get_info_log(handle, log)
    print(log.decode(), file=sys.stderr)
    binary = bytearray(nvjitlink.get_linked_cubin_size(handle))
    nvjitlink.get_linked_cubin(handle, binary)
    sys.stdout.buffer.write(binary)
    return 0


if __name__ == "__main__":
    sys.exit(main())
