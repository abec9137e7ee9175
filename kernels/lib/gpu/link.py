"""Linking of link-time code from standard input to machine code on standard output: `python -m … sm_90a`.

The assembler's report of registers and memory is printed to standard error. nvJitLink gets the same options as from
Numba on a device. It runs in a separate process, because linking dozens of kernels in one process eventually corrupts
its memory (observed with 13.5; measurements link few kernels per process).
"""

from __future__ import annotations

import sys

from cuda.bindings import nvjitlink


def main() -> int:
    """Link standard input; return 0, or 1 after printing nvJitLink's message if linking fails."""
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
