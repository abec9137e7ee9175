"""SHA-1 of one UTS node per lane with the rounds of SHA-NI, for x86 CPUs with SHA-NI and without AVX-512.

An instruction of SHA-NI processes one node, whose words are adjacent in a 128-bit register, while the rest of the
search has one node per lane. `sha1rnds4` does four of the 80 rounds, and `sha1nexte` adds the fifth word of the state
to the words of the schedule. These words are computed by vectors and transposed, four at a time.

Bound: `sha1rnds4`, which AMD Zen 4 starts every two cycles, so that a node takes 40 cycles. Measured there, compiled
for Zen 3: hashing alone takes 47 cycles and 175 instructions per node, with AVX2 alone 55 cycles and 193 instructions.
When another guest of the host slows the core down, both are equal within 3 %.

The schedule instructions `sha1msg1` and `sha1msg2` take 47 cycles as well. On Intel Alder Lake they are two and seven
micro-operations each: according to LLVM's model (llvm-mca 19) a node would take 86 cycles with them, 62 with AVX2 alone
and 52 with this code. It has run on Zen 4 only.

Source: Intel, "Intel SHA Extensions", July 2013.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from accelbench.kernels.treesearch.uts.sha1_rounds import INITIAL, WORD, constant, emit_schedule, rotate

QUAD = ir.VectorType(WORD, 4)
"""Operand of SHA-NI: four words, the first one in the highest lane."""
TURNS = 20
"""Executions of `sha1rnds4` for one message."""


def is_faster(features: Collection[str]) -> bool:
    """Return whether a CPU with these features (LLVM's names) hashes faster with SHA-NI than with vectors alone.

    AVX-512 has instructions for rotations and for the functions of a round: 35 cycles per node in eight lanes.
    """
    return "sha" in features and "avx512f" not in features


def _shuffle(builder: Any, a: Any, b: Any, places: list[int]) -> Any:
    """Return the words at `places` of the concatenation of a and b."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(WORD, len(places)), places))


def _transpose(builder: Any, rows: list[Any]) -> list[Any]:
    """Return four vectors of four or eight words with each 4×4 block transposed; the function is its own inverse."""
    lanes = rows[0].type.count

    def interleave(a: Any, b: Any, first: int, width: int) -> Any:
        """Return two words from index `first` of each block of a, and two of b, interleaved by `width` words."""
        starts = [block + i for block in range(first, lanes, 4) for i in range(0, 2, width)]
        return _shuffle(builder, a, b, [s + i + other for s in starts for other in (0, lanes) for i in range(width)])

    pairs = [[interleave(rows[i], rows[i + 1], first, 1) for i in (0, 2)] for first in (0, 2)]
    return [interleave(low, high, first, 2) for low, high in pairs for first in (0, 2)]


def _to_nodes(builder: Any, rows: list[Any]) -> list[Any]:
    """Return one QUAD with four words per node from four vectors, each with one word of every node."""
    turned = _transpose(builder, rows[::-1])
    blocks = [list(range(first, first + 4)) for first in range(0, rows[0].type.count, 4)]
    return [_shuffle(builder, row, row, block) for block in blocks for row in turned]


def _to_rows(builder: Any, nodes: list[Any]) -> list[Any]:
    """Return the four vectors from the QUADs of the nodes, the inverse of `_to_nodes`."""
    wide = nodes
    if len(nodes) > 4:
        wide = [_shuffle(builder, *pair, list(range(8))) for pair in zip(nodes[:4], nodes[4:], strict=True)]
    return _transpose(builder, wide)[::-1]


def emit_sha1(builder: Any, message: list[Any]) -> list[Any]:
    """Return the five words of the SHA-1 digest of a message of six words: vectors of four or eight lanes."""
    kind = message[0].type

    def instruction(name: str, *immediate: ir.Type) -> Any:
        function = ir.FunctionType(QUAD, [QUAD, QUAD, *immediate])
        return cgutils.get_or_insert_function(builder.module, function, f"llvm.x86.{name}")

    rounds, add_e = instruction("sha1rnds4", ir.IntType(8)), instruction("sha1nexte")
    schedule = emit_schedule(builder, message)
    states = [ir.Constant(QUAD, list(INITIAL[3::-1]))] * kind.count
    before = states
    for turn in range(TURNS):
        words = [next(schedule) for _ in range(4)]
        if turn < 2:  # the fifth word of the state is a constant: the initial one, then the rotated first one
            fifth = INITIAL[4] if turn == 0 else INITIAL[0] << 30 & 0xFFFFFFFF | INITIAL[0] >> 2
            words[0] = builder.add(words[0], constant(kind, fifth))
        added = _to_nodes(builder, words)
        if turn >= 2:
            added = [builder.call(add_e, pair) for pair in zip(before, added, strict=True)]
        function = ir.IntType(8)(turn // (TURNS // 4))
        before, states = states, [builder.call(rounds, [*pair, function]) for pair in zip(states, added, strict=True)]
    fifth = rotate(builder, _to_rows(builder, before)[0], 30)
    return [
        builder.add(word, constant(kind, first))
        for word, first in zip([*_to_rows(builder, states), fifth], INITIAL, strict=True)
    ]
