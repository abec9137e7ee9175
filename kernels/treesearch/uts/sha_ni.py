"""SHA-1 of a UTS node in each lane, with the rounds of SHA-NI, for x86 CPUs that have it and no AVX-512.

An instruction of SHA-NI works on one node, whose words lie side by side in a register of 128 bits, where everything
else here has a word of another node in each lane. `sha1rnds4` does four of the 80 rounds, and `sha1nexte` adds the
fifth word of the state to the words for them. These words are computed by vectors and transposed, four at a time.

Bound: `sha1rnds4`, which AMD's Zen 4 begins every two cycles, so that a node takes 40. Measured there, compiled for
Zen 3, hashing alone takes 47 cycles a node, in 175 instructions, and with AVX2 alone 55, in 193. While another guest of
the host slows the core down, both take as long within 3 %.

The instructions for the words, `sha1msg1` and `sha1msg2`, would do in 47 cycles as well. On Intel's Alder Lake they are
two and seven operations each: by LLVM's table of it (llvm-mca 19) a node would take 86 cycles with them, where it takes
62 with AVX2 alone and 52 like this. It has run on no CPU but Zen 4.

Source: Intel, "Intel SHA Extensions", July 2013.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from accelbench.kernels.treesearch.uts.sha1_rounds import INITIAL, WORD, constant, emit_schedule, rotate

QUAD = ir.VectorType(WORD, 4)
"""What an instruction of SHA-NI takes: four words, of which the first is in the highest lane."""
TURNS = 20
"""Executions of `sha1rnds4` for one message."""


def is_faster(features: Collection[str]) -> bool:
    """Return whether a CPU with those features, by LLVM's names, hashes faster this way than by vectors alone.

    AVX-512 rotates a word, and computes the function of a round, in one instruction: 35 cycles a node in eight lanes.
    """
    return "sha" in features and "avx512f" not in features


def _shuffle(builder: Any, a: Any, b: Any, places: list[int]) -> Any:
    """Return the words in those places of a and then b."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(WORD, len(places)), places))


def _transpose(builder: Any, rows: list[Any]) -> list[Any]:
    """Return four vectors of four or eight words with each block of four by four transposed; twice undoes it."""
    lanes = rows[0].type.count

    def interleave(a: Any, b: Any, first: int, width: int) -> Any:
        """Take two words from place `first` of each block of a, and two of b, in turns of `width` words."""
        starts = [block + i for block in range(first, lanes, 4) for i in range(0, 2, width)]
        return _shuffle(builder, a, b, [s + i + other for s in starts for other in (0, lanes) for i in range(width)])

    pairs = [[interleave(rows[i], rows[i + 1], first, 1) for i in (0, 2)] for first in (0, 2)]
    return [interleave(low, high, first, 2) for low, high in pairs for first in (0, 2)]


def _to_nodes(builder: Any, rows: list[Any]) -> list[Any]:
    """Return the four words of each lane, a QUAD for each node, of four vectors with one word of every node."""
    turned = _transpose(builder, rows[::-1])
    blocks = [list(range(first, first + 4)) for first in range(0, rows[0].type.count, 4)]
    return [_shuffle(builder, row, row, block) for block in blocks for row in turned]


def _to_rows(builder: Any, nodes: list[Any]) -> list[Any]:
    """Return the vectors of which `_to_nodes` makes these nodes."""
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
        if turn < 2:  # the fifth word of the state is a constant: the initial one, and then the first one rotated
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
