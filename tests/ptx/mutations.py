"""Errors planted into the kernels' PTX, and whether executing the kernels finds them.

`python -m tests.ptx.mutations [NUMBER] [SEED]` samples NUMBER mutants of each kernel (default: 15), lists those that
are not found, and prints a table by rule. A mutant is without effect if its instruction computes the same in every
execution: whatever is checked, there is nothing to find.
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from tests.ptx import test_matrix_kernels as matrix
from tests.ptx import test_memory_kernels as memory
from tests.ptx import test_search_kernels as search
from tests.ptx.kernels import Bench
from tests.ptx.machine import PtxError

SEEDS = (1, 2, 3)
LIMIT = 3_000_000
SYNCHRONISATION = (
    r"bar\.sync", r"bar\.warp\.sync", r"membar", r"cp\.async\.wait_group", r"cp\.async\.bulk\.wait_group",
    r"fence\.proxy", r"wgmma\.fence", r"wgmma\.wait_group", r"mbarrier\.arrive", r"barrier\.cluster",
)  # fmt: skip
WEAKENING = ("wait for a group less", "narrow a scope")
OUTCOMES = "found", "missed", "without effect", "invalid"
REGISTERS = {"p": "pred", "rs": "b16", "r": "b32", "f": "b32", "rd": "b64", "fd": "b64"}
"""The types of registers by their names in the compilers' texts."""


@dataclass(frozen=True)
class Mutation:
    """A replacement of one part of a text."""

    rule: str
    line: int
    start: int
    end: int
    replacement: str

    @property
    def unsynchronises(self) -> bool:
        """Whether an instruction that synchronises is removed, or synchronises less."""
        return self.rule in WEAKENING or (self.replacement == "" and self.rule != "remove a store")

    def apply(self, text: str) -> str:
        return text[: self.start] + self.replacement + text[self.end :]

    def probe(self, text: str) -> str | None:
        """Return a text that stops where the changed instruction has another result; None if it has no result."""
        begin, end = text.rindex("\n", 0, self.start) + 1, text.index("\n", self.end)
        changed = text[begin : self.start] + self.replacement + text[self.end : end]
        parts = re.fullmatch(r"\s*([a-z][\w.]*)\s+%([a-z]+)(\d+)(, [^;]*;)\s*", changed)
        if parts is None:
            return None
        opcode, kind, number, operands = parts.groups()
        kept, width = f"%{kind}{number}", REGISTERS[kind]
        differ = f"xor.pred differs, other, {kept};" if kind == "p" else f"setp.ne.{width} differs, other, {kept};"
        before = f"{{ .reg .{width} other; .reg .pred differs; {opcode} other{operands}"
        return f"{text[:begin]}{before} {text[begin:end]} {differ} @differs trap; }}{text[end:]}"


def mutations(text: str) -> Iterator[Mutation]:
    """Yield every mutation of a PTX text, in the order of the rules."""
    code = text[text.index("{") :]
    offset = len(text) - len(code)

    def found(rule: str, pattern: str, replace: Callable[[re.Match[str]], str]) -> Iterator[Mutation]:
        for match in re.finditer(pattern, code):
            start, end = offset + match.start(), offset + match.end()
            yield Mutation(rule, text.count("\n", 0, start) + 1, start, end, replace(match))

    guard = r"(?:@!?%\w+\s+)?"
    for opcode in SYNCHRONISATION:
        yield from found(f"remove {opcode}".replace("\\", ""), rf"{guard}\b{opcode}[^;]*;", lambda match: "")
    groups = r"(wait_group(?:\.read|\.sync\.aligned)?\s+)(\d+)"
    yield from found(WEAKENING[0], groups, lambda match: f"{match[1]}{int(match[2]) + 1}")
    yield from found(WEAKENING[1], r"\bmembar\.gl\b", lambda match: "membar.cta")
    yield from found(WEAKENING[1], r"\b(atom|red)\.global\b", lambda match: f"{match[1]}.cta.global")
    yield from found("remove a store", rf"{guard}\bst\.(?:global|shared|local)[^;]*;", lambda match: "")
    yield from found("shift an address", r"(?<=\+)(\d+)(?=\])", lambda match: str(int(match[1]) + 16))
    yield from found("negate a guard", r"@(!?)(%p\d+)", lambda match: f"@{'' if match[1] else '!'}{match[2]}")
    swapped = {"lt": "le", "le": "lt", "gt": "ge", "ge": "gt", "eq": "ne", "ne": "eq"}
    yield from found("change a comparison", r"setp\.(lt|le|gt|ge|eq|ne)\.", lambda match: f"setp.{swapped[match[1]]}.")
    yield from found("change an operation", r"\b(add|sub)\.(s32|s64|f32|f64)", _exchange)
    yield from found("change a constant", r"(?<=, )(\d+)(?=;)", lambda match: str(int(match[1]) + 1))


def _exchange(match: re.Match[str]) -> str:
    return f"{'sub' if match[1] == 'add' else 'add'}.{match[2]}"


def on_memory(*checks: memory.Check) -> Callable[[Bench], None]:
    return lambda bench: memory.in_turn(*checks)(bench, np.random.default_rng(bench.seed))


def on_wgmma(bench: Bench) -> None:
    matrix.check_wgmma(bench, "float16", 1, (264, 264, 328), work=1)
    matrix.check_wgmma(bench, "float16", 1, (8, 8, 64), work=1)


def on_mma(bench: Bench) -> None:
    for sizes in ((264, 72, 136), (256, 64, 40), (8, 8, 8)):
        matrix.check_mma(bench, "float16", "narrow", 1, sizes)


def on_attention(bench: Bench) -> None:
    for sequence, causal in ((200, True), (256, False), (1, True)):
        matrix.check_attention(bench, "float16", 64, sequence, causal)


def on_tiles(bench: Bench) -> None:
    for sizes in ((68, 72, 28), (64, 64, 32), (520, 128, 4)):
        matrix.check_numba(bench, "float32", "64x64", sizes)


def on_pool(bench: Bench) -> None:
    """More than 32 blocks: the flags of their shelves fill more than one word."""
    for blocks in (6, 40):
        change = partial(bench.edit, "search")
        assert search.search_tree(bench, bench.seed, change, blocks=blocks, threads=64).passed


CASES: dict[str, tuple[str, Callable[[Bench], None]]] = {
    "reduce": (
        "reduce numba float32",
        on_memory(*(memory.reduce_sum("float32", length, 3) for length in (12_295, 12_288, 1, 3072))),
    ),
    "norm": ("norm numba", on_memory(memory.norm(3, 1001), memory.norm(1, 3072), memory.norm(1, 1))),
    "softmax": ("softmax-xent numba", on_memory(*(memory.softmax(*size) for size in ((4, 4001), (1, 4096), (3, 1))))),
    "dot": (
        "stream numba dot float32",
        on_memory(*(memory.stream_numba("dot", "float32", length) for length in (8595, 8192, 1))),
    ),
    "vectors": (
        "stream cupy triad float32",
        on_memory(*(memory.stream_cupy("triad", "float32", vectors) for vectors in (2148, 2048, 1))),
    ),
    "atomics": (
        "atomics block float32",
        on_memory(*(memory.atomics("block", "float32", additions) for additions in (1, 3, 4, 7))),
    ),
    "counters": (
        "atomics one int32",
        on_memory(*(memory.atomics("one", "int32", additions) for additions in (1, 3, 4, 7))),
    ),
    "mma": ("matmul mma float16 narrow", on_mma),
    "wgmma": ("matmul wgmma float16", on_wgmma),
    "attention": ("attention mma float16 64", on_attention),
    "tiled": ("matmul numba float32 64x64", on_tiles),
    "pool": ("search", on_pool),
}
"""The kernel that is changed, and the check that runs it."""


def fails(case: str, edit: Callable[[str], str]) -> bool | None:
    """Return whether an execution of the edited kernel is wrong for any seed; None if no device would accept it."""
    kernel, check = CASES[case]
    for seed in SEEDS:
        try:
            check(Bench(seed=seed, limit=LIMIT, edit=lambda name, text: edit(text) if name == kernel else text))
        except PtxError as error:
            return None if error.kind in ("syntax", "unsupported", "launch") else True
        except AssertionError:
            return True
    return False


def is_found(case: str, mutation: Mutation) -> bool:
    """Return whether any seed's execution reports a defect or gives wrong results."""
    return bool(fails(case, mutation.apply))


def outcome_of(case: str, mutation: Mutation) -> str:
    """Return one of OUTCOMES."""
    failed = fails(case, mutation.apply)
    if failed is None:
        return "invalid"
    if failed:
        return "found"
    has_result = mutation.probe(text_and_lines(case)[0]) is not None
    return "missed" if not has_result or fails(case, lambda text: str(mutation.probe(text))) else "without effect"


def text_and_lines(case: str) -> tuple[str, set[int]]:
    """Return the kernel's text and the lines of it that the check executes."""
    kernel, check = CASES[case]
    texts: dict[str, str] = {}

    def keep(name: str, text: str) -> str:
        return texts.setdefault(name, text)

    bench = Bench(edit=keep)
    check(bench)
    return texts[kernel], bench.executed[kernel]


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
    """Print the mutants that are not found, and the numbers of outcomes by rule."""
    count, seed = (int(sys.argv[k]) if len(sys.argv) > k else default for k, default in ((1, 15), (2, 0)))
    outcomes: dict[str, Counter[str]] = {}
    for case in CASES:
        lines = text_and_lines(case)[0].splitlines()
        for mutation in sample(case, count, seed):
            outcome = outcome_of(case, mutation)
            outcomes.setdefault(mutation.rule, Counter())[outcome] += 1
            if outcome != "found":
                place = f"{case}, line {mutation.line}: {lines[mutation.line - 1].strip()[:100]}"
                print(f"{outcome}: {mutation.rule}, {place}", flush=True)
    print("| rule |", " | ".join(OUTCOMES), "|\n|---" + "|---:" * len(OUTCOMES) + "|")
    for rule, counts in [*outcomes.items(), ("all", sum(outcomes.values(), Counter()))]:
        print(f"| {rule} |", " | ".join(str(counts[outcome]) for outcome in OUTCOMES), "|")
    return 0


if __name__ == "__main__":
    sys.exit(main())
