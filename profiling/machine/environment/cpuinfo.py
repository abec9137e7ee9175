"""Entries of `/proc/cpuinfo`, which each architecture spells differently (proc(5), Linux `arch/*/kernel`)."""

from __future__ import annotations

import re
from pathlib import Path

from accelbench.profiling.machine.environment.arm import IMPLEMENTERS, core_name
from accelbench.profiling.machine.environment.files import read_text

Entries = dict[str, str]
"""Values by name in lower case."""

# Vector and matrix extensions, by the kernel's names.
ISA = (
    *("sse4_2", "avx", "f16c", "fma", "avx2", "avx_vnni", "avx512f", "avx512dq", "avx512bw", "avx512vl"),
    *("avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "amx_fp16"),
    *("asimd", "fphp", "asimdhp", "asimddp", "bf16", "i8mm", "sve", "sve2", "svebf16", "sme", "sme2"),
    *("vx", "vxe", "vxe2", "lsx", "lasx", "altivec", "rvv"),
)
IBM_Z = {
    "2964": "IBM z13",
    "2965": "IBM z13s",
    "3906": "IBM z14",
    "3907": "IBM z14 ZR1",
    "8561": "IBM z15",
    "8562": "IBM z15 T02",
    "3931": "IBM z16",
    "3932": "IBM z16 A02",
    "9175": "IBM z17",
}
"""Names of IBM's mainframes by machine type."""


def read_cpuinfo(root: Path = Path("/")) -> Entries:
    """Return the entries of the first processor, and the ones that precede all processors or follow them."""
    blocks = _blocks(root)
    first = next((block for block in blocks if _number(block) is not None), {})
    common: Entries = {}
    for block in blocks:
        if _number(block) is None:
            common = block | common
    return common | first


def read_processors(root: Path = Path("/")) -> dict[int, Entries]:
    """Return the entries of each listed processor by its number."""
    return {number: block for block in _blocks(root) if (number := _number(block)) is not None}


def processor_name(info: Entries) -> str | None:
    """Return the processor's name: by implementer and part on Arm, by machine type on IBM Z, else as stated."""
    machine = re.search(r"machine = (\w+)", info.get("processor 0", ""))
    stated = info.get("model name") or info.get("cpu model") or info.get("cpu") or info.get("uarch")
    return (
        core_name(arm_number(info, "cpu implementer"), arm_number(info, "cpu part"))
        or (IBM_Z.get(machine[1] if machine else info.get("machine", "")) if "ibm/s390" in vendor_id(info) else None)
        or (None if (stated or "").startswith("ARMv") else stated)  # the name of an instruction set
    )


def processor_vendor(info: Entries) -> str | None:
    """Return the processor's vendor: by implementer on Arm, else as stated."""
    return info.get("vendor_id") or IMPLEMENTERS.get(arm_number(info, "cpu implementer"))


def vendor_id(info: Entries) -> str:
    return info.get("vendor_id", "").lower()


def arm_number(info: Entries, name: str) -> int:
    """Return a number of an Arm core; −1 if it is missing or not a number."""
    try:
        return int(info.get(name, ""), 0)
    except ValueError:
        return -1


def instruction_sets(info: Entries) -> list[str]:
    """Return the vector and matrix extensions of `ISA` that the processor has."""
    present = set((info.get("flags") or info.get("features") or "").split())
    if "altivec" in info.get("cpu", ""):
        present.add("altivec")
    if re.match(r"rv(32|64)[a-u]*v", info.get("isa", "")):
        present.add("rvv")
    return [name for name in ISA if name in present]


def current_mhz(info: Entries) -> float | None:
    """Return the current clock in MHz; None if it is not stated."""
    stated = info.get("cpu mhz") or info.get("clock") or info.get("cpu mhz static")
    found = re.match(r"[\d.]*\d", stated or "")
    return float(found[0]) or None if found else None


def _blocks(root: Path) -> list[Entries]:
    text = read_text(root / "proc/cpuinfo") or ""
    return [_parse(block) for block in re.split(r"\n\s*\n", text) if block.strip()]


def _parse(block: str) -> Entries:
    parts = (line.partition(":") for line in block.splitlines())
    return {name.strip().lower(): value.strip() for name, _, value in parts}


def _number(block: Entries) -> int | None:
    """Return the number of a block's processor; None if the block is of no single processor."""
    number = block.get("processor", block.get("cpu number", ""))
    return int(number) if number.isdigit() else None
