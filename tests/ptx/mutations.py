"""Errors planted into the kernels' PTX, and whether executing the kernels finds them.

`python -m tests.ptx.mutations` prints, for each kernel, how many of its mutants were found, and the survivors.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from tests.ptx import test_matrix_kernels as matrix
from tests.ptx import test_memory_kernels as memory
from tests.ptx.kernels import Bench
from tests.ptx.machine import PtxError

SEEDS = (1, 2, 3)
LIMIT = 3_000_000
SYNCHRONISATION = (
    r"bar\.sync", r"bar\.warp\.sync", r"membar", r"cp\.async\.wait_group", r"cp\.async\.bulk\.wait_group",
    r"fence\.proxy", r"wgmma\.fence", r"wgmma\.wait_group", r"mbarrier\.arrive", r"barrier\.cluster",
)  # fmt: skip


@dataclass(frozen=True)
class Mutation:
    """A replacement of one part of a text."""

    rule: str
    line: int
    start: int
    end: int
    replacement: str

    @property
    def removes(self) -> bool:
        """Whether an instruction that synchronises is removed."""
        return self.replacement == ""

    def apply(self, text: str) -> str:
        return text[: self.start] + self.replacement + text[self.end :]


def mutations(text: str) -> Iterator[Mutation]:
    """Yield every mutation of a PTX text, in the order of the rules."""
    code = text[text.index("{") :]
    offset = len(text) - len(code)

    def found(rule: str, pattern: str, replace: Callable[[re.Match[str]], str]) -> Iterator[Mutation]:
        for match in re.finditer(pattern, code):
            start, end = offset + match.start(), offset + match.end()
            yield Mutation(rule, text.count("\n", 0, start) + 1, start, end, replace(match))

    for opcode in SYNCHRONISATION:
        yield from found(f"remove {opcode}".replace("\\", ""), rf"{opcode}[^;]*;", lambda match: "")
    yield from found("shift an address", r"(?<=\+)(\d+)(?=\])", lambda match: str(int(match[1]) + 16))
    yield from found("negate a guard", r"@(!?)(%p\d+)", lambda match: f"@{'' if match[1] else '!'}{match[2]}")
    swapped = {"lt": "le", "le": "lt", "gt": "ge", "ge": "gt", "eq": "ne", "ne": "eq"}
    yield from found("change a comparison", r"setp\.(lt|le|gt|ge|eq|ne)\.", lambda match: f"setp.{swapped[match[1]]}.")
    yield from found("change an operation", r"\b(add|sub)\.(s32|s64|f32|f64)", _exchange)
    yield from found("change a constant", r"(?<=, )(\d+)(?=;)", lambda match: str(int(match[1]) + 1))


def _exchange(match: re.Match[str]) -> str:
    return f"{'sub' if match[1] == 'add' else 'add'}.{match[2]}"


def on_memory(name: str) -> Callable[[Bench], None]:
    return lambda bench: memory.FAST[name](bench, np.random.default_rng(bench.seed))


CASES: dict[str, tuple[str, Callable[[Bench], None]]] = {
    "reduce": ("reduce numba float32", on_memory("reduce float32")),
    "norm": ("norm numba", on_memory("norm")),
    "softmax": ("softmax-xent numba", on_memory("softmax")),
    "dot": ("stream numba dot float32", on_memory("stream numba dot")),
    "atomics": ("atomics block float32", on_memory("atomics block")),
    "mma": (
        "matmul mma float16 narrow",
        lambda bench: matrix.check_mma(bench, "float16", "narrow", 1, (264, 72, 136)),
    ),
    "wgmma": (
        "matmul wgmma float16",
        lambda bench: matrix.check_wgmma(bench, "float16", 1, (264, 264, 328), work=1),
    ),
    "attention": (
        "attention mma float16 64",
        lambda bench: matrix.check_attention(bench, "float16", 64, 200, causal=True),
    ),
    "tiled": (
        "matmul numba float32 64x64",
        lambda bench: matrix.check_numba(bench, "float32", "64x64", (68, 72, 28)),
    ),
}
"""The kernel that is changed, and the check that runs it."""


def is_found(case: str, mutation: Mutation) -> bool:
    """Return whether any seed's execution reports a defect or gives wrong results."""
    kernel, check = CASES[case]

    def edit(name: str, text: str) -> str:
        return mutation.apply(text) if name == kernel else text

    for seed in SEEDS:
        try:
            check(Bench(seed=seed, limit=LIMIT, edit=edit))
        except (PtxError, AssertionError):
            return True
    return False


def text_and_lines(case: str) -> tuple[str, set[int]]:
    """Return the kernel's text and the lines of it that the check executes."""
    kernel, check = CASES[case]
    bench = Bench()
    check(bench)
    return bench.text(memory.named(kernel)), bench.executed[kernel]


def sample(case: str, count: int, seed: int = 0) -> list[Mutation]:
    """Return that many mutations of executed lines, drawn rule by rule in turn so that rare rules are among them."""
    text, executed = text_and_lines(case)
    by_rule: dict[str, list[Mutation]] = {}
    for mutation in mutations(text):
        if mutation.line in executed:
            by_rule.setdefault(mutation.rule, []).append(mutation)
    generator = random.Random(seed)
    for listed in by_rule.values():
        generator.shuffle(listed)
    drawn: list[Mutation] = []
    while len(drawn) < count and any(by_rule.values()):
        drawn += [listed.pop() for listed in by_rule.values() if listed]
    return drawn[:count]


def main() -> int:
    """Print what is found of so many mutants of each kernel: the first argument, or 15."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    found_in_all = total = 0
    for case in CASES:
        drawn = sample(case, count)
        survivors = [mutation for mutation in drawn if not is_found(case, mutation)]
        found_in_all, total = found_in_all + len(drawn) - len(survivors), total + len(drawn)
        print(f"{case}: {len(drawn) - len(survivors)} of {len(drawn)} found")
        lines = Bench().text(memory.named(CASES[case][0])).splitlines()
        for mutation in survivors:
            print(f"  survives: {mutation.rule}, line {mutation.line}: {lines[mutation.line - 1].strip()[:100]}")
    print(f"{found_in_all} of {total} found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
