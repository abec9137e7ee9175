"""Scalar and warp instructions against models in exact arithmetic: Python's integers and fractions.

The reference is NVIDIA's PTX ISA, chapter "Instruction Set".
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.ptx.machine import Device, PtxError

pytestmark = pytest.mark.needs("g++")

LANES, COUNT = 32, 96
HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n"
REGISTER = {"u2": "b16", "u4": "b32", "u8": "b64"}


def apply(instruction: str, result: str, *operands: Any) -> Any:
    """Execute an instruction on arrays of unsigned integers (bits) of equal length, a lane for each element.

    {d} stands for the result, of NumPy type `result` or "pred" (returned as 0 and 1), {a}, {b} … for the operands.
    """
    length, names = len(operands[0]), "abcdef"[: len(operands)]
    kinds = {name: REGISTER[array.dtype.str[1:]] for name, array in zip(names, operands, strict=True)}
    stored = "u4" if result == "pred" else result
    lines = [".reg .b64 %at, %base, %i;", ".reg .b32 %t, %c, %n;", ".reg .pred %p;", f".reg .{REGISTER[stored]} %d;"]
    lines += ["mov.u32 %t, %tid.x;", "mov.u32 %c, %ctaid.x;", "mov.u32 %n, %ntid.x;", "mad.lo.u32 %t, %c, %n, %t;"]
    lines += ["cvt.u64.u32 %i, %t;"]
    for name, array in zip(names, operands, strict=True):
        lines += [f".reg .{kinds[name]} %{name};", f"ld.param.u64 %base, [{name}];"]
        lines += [f"mad.lo.u64 %at, %i, {array.itemsize}, %base;", f"ld.global.{kinds[name]} %{name}, [%at];"]
    used = {name: f"%{name}" for name in names} | {"d": "%p" if result == "pred" else "%d"}
    lines.append(instruction.format(**used) + ";")
    if result == "pred":
        lines.append("selp.u32 %d, 1, 0, %p;")
    size = np.dtype(stored).itemsize
    lines += ["ld.param.u64 %base, [out];", f"mad.lo.u64 %at, %i, {size}, %base;"]
    lines += [f"st.global.{REGISTER[stored]} [%at], %d;", "ret;"]
    parameters = ", ".join(f".param .u64 {name}" for name in (*names, "out"))
    device = Device()
    out = device.empty(length, stored)
    module = device.load(f"{HEADER}.visible .entry k({parameters})\n{{\n" + "\n".join(lines) + "\n}\n")
    module.launch(length // LANES, LANES, *(device.read_only(array) for array in operands), out)
    return out.array


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def draw_bits(rng: np.random.Generator, size: int) -> Any:
    """Return random bits, with small numbers and the extremes among them."""
    bits = 8 * size
    special = [0, 1, 2, 3, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1, 31, 32, 33, 64, 255]
    drawn = rng.integers(0, 1 << 63, COUNT, np.uint64) * np.uint64(2) + rng.integers(0, 2, COUNT, np.uint64)
    drawn[: COUNT // 3] = rng.choice(np.array(special, np.uint64), COUNT // 3)
    return rng.permutation(drawn).astype(f"u{size}")


def divide(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return -quotient if (a < 0) != (b < 0) else quotient


def find_bit(value: int, bits: int, is_signed: bool) -> int:
    if is_signed and value < 0:
        value = ~value
    return value.bit_length() - 1 if value else (1 << 32) - 1


def extract(value: int, start: int, length: int, bits: int, is_signed: bool) -> int:
    start, length = start & 255, length & 255
    value &= (1 << bits) - 1
    sign = value >> min(start + length - 1, bits - 1) & 1 if is_signed and length else 0
    field = [value >> (start + k) & 1 if start + k < bits else sign for k in range(min(length, bits))]
    field += [sign] * (bits - len(field))
    return sum(bit << k for k, bit in enumerate(field))


INTEGER: dict[str, Callable[..., int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul.lo": operator.mul,
    "min": min,
    "max": max,
    "sad": lambda a, b, c: abs(a - b) + c,
    "mad.lo": lambda a, b, c: a * b + c,
}


@pytest.mark.parametrize("kind", ["s16", "u16", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("name", [*INTEGER, "mul.hi", "mad.hi", "div", "rem"])
def test_integer_arithmetic(name: str, kind: str) -> None:
    bits, rng = int(kind[1:]), np.random.default_rng(1)
    arity = 3 if name[:3] in ("mad", "sad") else 2
    operands = [draw_bits(rng, bits // 8) for _ in range(arity)]
    if name in ("div", "rem"):
        operands[1][operands[1] == 0] = 7
    found = apply(f"{name}.{kind} {{d}}, " + ", ".join(["{a}", "{b}", "{c}"][:arity]), f"u{bits // 8}", *operands)
    high = {"mul.hi": lambda a, b: a * b >> bits, "mad.hi": lambda a, b, c: (a * b >> bits) + c}
    quotients = {"div": divide, "rem": lambda a, b: a - b * divide(a, b)}
    model = (INTEGER | high | quotients)[name]
    for result, *values in zip(found, *operands, strict=True):
        numbers = [signed(int(value), bits) if kind[0] == "s" else int(value) for value in values]
        assert int(result) == model(*numbers) % (1 << bits), numbers


@pytest.mark.parametrize("kind", ["s16", "u16", "s32", "u32"])
def test_wide_products(kind: str) -> None:
    bits, rng = int(kind[1:]), np.random.default_rng(2)
    a, b = (draw_bits(rng, bits // 8) for _ in range(2))
    found = apply(f"mul.wide.{kind} {{d}}, {{a}}, {{b}}", f"u{bits // 4}", a, b)
    for result, *values in zip(found, a, b, strict=True):
        x, y = (signed(int(value), bits) if kind[0] == "s" else int(value) for value in values)
        assert int(result) == x * y % (1 << (2 * bits))


BITWISE: dict[str, tuple[int, Callable[..., int]]] = {
    "and.b{n}": (2, lambda n, a, b: a & b),
    "or.b{n}": (2, lambda n, a, b: a | b),
    "xor.b{n}": (2, lambda n, a, b: a ^ b),
    "not.b{n}": (1, lambda n, a: ~a),
    "neg.s{n}": (1, lambda n, a: -a),
    "abs.s{n}": (1, lambda n, a: abs(signed(a, n))),
    "brev.b{n}": (1, lambda n, a: int(f"{a:0{n}b}"[::-1], 2)),
}
COUNTED: dict[str, Callable[[int, int], int]] = {
    "popc.b{n}": lambda n, a: a.bit_count(),
    "clz.b{n}": lambda n, a: n - a.bit_length(),
    "bfind.u{n}": lambda n, a: find_bit(a, n, False),
    "bfind.s{n}": lambda n, a: find_bit(signed(a, n), n, True),
    "bfind.shiftamt.u{n}": lambda n, a: n - 1 - find_bit(a, n, False) if a else (1 << 32) - 1,
}
SHIFTS: dict[str, Callable[[int, int, int], int]] = {
    "shl.b{n}": lambda n, a, s: a << s if s < n else 0,
    "shr.u{n}": lambda n, a, s: a >> s if s < n else 0,
    "shr.s{n}": lambda n, a, s: signed(a, n) >> min(s, n - 1),
}


@pytest.mark.parametrize("bits", [32, 64])
def test_bits(bits: int) -> None:
    rng = np.random.default_rng(3)
    a, b = (draw_bits(rng, bits // 8) for _ in range(2))
    shifts = rng.integers(0, 70, COUNT).astype(np.uint32)
    size = f"u{bits // 8}"
    for name, (arity, model) in BITWISE.items():
        operands = (a, b)[:arity]
        found = apply(name.format(n=bits) + " {d}, {a}" + ", {b}" * (arity == 2), size, *operands)
        expected = [model(bits, *map(int, values)) % (1 << bits) for values in zip(*operands, strict=True)]
        assert found.tolist() == expected, name
    for name, count in COUNTED.items():
        found = apply(name.format(n=bits) + " {d}, {a}", "u4", a)
        assert found.tolist() == [count(bits, int(value)) for value in a], name
    for name, shift in SHIFTS.items():
        found = apply(name.format(n=bits) + " {d}, {a}, {b}", size, a, shifts)
        assert found.tolist() == [shift(bits, int(x), int(s)) % (1 << bits) for x, s in zip(a, shifts, strict=True)]


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_bit_fields(kind: str) -> None:
    bits, rng = int(kind[1:]), np.random.default_rng(4)
    a, b = (draw_bits(rng, bits // 8) for _ in range(2))
    start, length = (rng.integers(0, bits + 8, COUNT).astype(np.uint32) for _ in range(2))
    found = apply(f"bfe.{kind} {{d}}, {{a}}, {{b}}, {{c}}", f"u{bits // 8}", a, start, length)
    for result, x, s, n in zip(found, a, start, length, strict=True):
        assert int(result) == extract(int(x), int(s), int(n), bits, kind[0] == "s"), (x, s, n)
    found = apply(f"bfi.b{bits} {{d}}, {{a}}, {{b}}, {{c}}, {{e}}", f"u{bits // 8}", a, b, start, a, length)
    for result, x, y, s, n in zip(found, a, b, start, length, strict=True):
        mask = ((1 << int(n)) - 1) << int(s) & ((1 << bits) - 1)
        assert int(result) == (int(y) & ~mask) | (int(x) << int(s) & mask)


def test_permutations_and_logic_of_three() -> None:
    rng = np.random.default_rng(5)
    a, b, c = (draw_bits(rng, 4) for _ in range(3))

    def permute(x: int, y: int, selection: int) -> int:
        source = x | y << 32
        picks = [selection >> 4 * k & 15 for k in range(4)]
        chosen = [source >> 8 * (pick & 7) & 255 for pick in picks]
        signs = [0xFF * (byte >> 7) if pick & 8 else byte for pick, byte in zip(picks, chosen, strict=True)]
        return sum(byte << 8 * k for k, byte in enumerate(signs))

    triples = [tuple(map(int, values)) for values in zip(a, b, c, strict=True)]
    assert apply("prmt.b32 {d}, {a}, {b}, {c}", "u4", a, b, c).tolist() == [permute(*values) for values in triples]
    for table in (0x96, 0xE8, 0x1B):
        expected = [
            sum((table >> ((x >> k & 1) * 4 + (y >> k & 1) * 2 + (z >> k & 1)) & 1) << k for k in range(32))
            for x, y, z in triples
        ]
        assert apply(f"lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, {table}", "u4", a, b, c).tolist() == expected
    for mode, limit in (("wrap", lambda s: s & 31), ("clamp", lambda s: min(s, 32))):
        left = [((y << 32 | x) << limit(s) >> 32) & 0xFFFFFFFF for x, y, s in triples]
        right = [(y << 32 | x) >> limit(s) & 0xFFFFFFFF for x, y, s in triples]
        assert apply(f"shf.l.{mode}.b32 {{d}}, {{a}}, {{b}}, {{c}}", "u4", a, b, c).tolist() == left
        assert apply(f"shf.r.{mode}.b32 {{d}}, {{a}}, {{b}}, {{c}}", "u4", a, b, c).tolist() == right
    dots = [sum((x >> 8 * k & 255) * signed(y >> 8 * k & 255, 8) for k in range(4)) + z for x, y, z in triples]
    assert apply("dp4a.u32.s32 {d}, {a}, {b}, {c}", "u4", a, b, c).tolist() == [dot % (1 << 32) for dot in dots]
    dots = [sum((x >> 16 * k & 65535) * (y >> 8 * (k + 2) & 255) for k in range(2)) + z for x, y, z in triples]
    assert apply("dp2a.hi.u32.u32 {d}, {a}, {b}, {c}", "u4", a, b, c).tolist() == [dot % (1 << 32) for dot in dots]


@dataclass(frozen=True)
class Format:
    """A binary floating-point format."""

    name: str
    size: int
    fraction_bits: int
    exponent_bits: int

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent_bits) - 1) << self.fraction_bits

    @property
    def sign(self) -> int:
        return 1 << (self.fraction_bits + self.exponent_bits)

    def decode(self, bits: int) -> Fraction:
        """Return the value of finite bits."""
        exponent, fraction = (bits & ~self.sign) >> self.fraction_bits, bits & ((1 << self.fraction_bits) - 1)
        if exponent:
            fraction += 1 << self.fraction_bits
        value = fraction * Fraction(2) ** (max(exponent, 1) - self.bias - self.fraction_bits)
        return -value if bits & self.sign else value

    def encode(self, value: Fraction, mode: str) -> int:
        """Return the bits of a non-zero value, rounded once: "rn", "rz", "rm" or "rp"."""
        negative, magnitude = value < 0, abs(value)
        exponent = max(math.floor(math.log2(magnitude.numerator) - math.log2(magnitude.denominator)), 1 - self.bias)
        while exponent > 1 - self.bias and magnitude < Fraction(2) ** exponent:
            exponent -= 1
        while magnitude >= Fraction(2) ** (exponent + 1):
            exponent += 1
        scaled = magnitude / Fraction(2) ** (exponent - self.fraction_bits)
        whole, rest = divmod(scaled, 1)
        up = {"rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2), "rz": False}
        up |= {"rm": rest > 0 and negative, "rp": rest > 0 and not negative}
        bits = ((exponent + self.bias - 1) << self.fraction_bits) + int(whole) + bool(up[mode])
        if bits >= self.infinity:
            largest = {"rn": False, "rz": True, "rm": not negative, "rp": negative}[mode]
            bits = self.infinity - largest
        return bits | (self.sign if negative else 0)


F16, BF16 = Format("f16", 2, 10, 5), Format("bf16", 2, 7, 8)
F32, F64 = Format("f32", 4, 23, 8), Format("f64", 8, 52, 11)


def draw_floats(rng: np.random.Generator, form: Format) -> Any:
    """Return the bits of finite numbers of all sizes, most of them near 1, with ties of rounding among them."""
    exponents = rng.integers(form.bias - 6, form.bias + 7, COUNT)
    exponents[: COUNT // 4] = rng.integers(0, 2 * form.bias, COUNT // 4)
    fractions = rng.integers(0, 1 << form.fraction_bits, COUNT, np.uint64)
    fractions[COUNT // 4 : COUNT // 2] = rng.choice([0, 1, 1 << (form.fraction_bits - 1)], COUNT // 4)
    bits = rng.integers(0, 2, COUNT, np.uint64) * np.uint64(form.sign)
    bits |= exponents.astype(np.uint64) << np.uint64(form.fraction_bits) | fractions
    return rng.permutation(bits).astype(f"u{form.size}")


ARITHMETIC: dict[str, Callable[..., Fraction]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "fma": lambda a, b, c: a * b + c,
}


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("form", [F32, F64, F16, BF16], ids=lambda form: form.name)
def test_floating_point_arithmetic_rounds_once(form: Format, mode: str) -> None:
    rng = np.random.default_rng(6)
    operands = [draw_floats(rng, form) for _ in range(3)]
    for name, model in ARITHMETIC.items():
        if form.size == 2 and (mode != "rn" or name == "div"):
            continue  # the ISA has no such instruction
        given = operands if name == "fma" else operands[:2]
        if name == "div":
            given[1][given[1] & ~np.array(form.sign, given[1].dtype) == 0] = 1
        found = apply(
            f"{name}.{mode}.{form.name} {{d}}, {{a}}, {{b}}" + ", {c}" * (name == "fma"), f"u{form.size}", *given
        )
        for result, *bits in zip(found, *given, strict=True):
            exact = model(*(form.decode(int(b)) for b in bits))
            if exact:
                assert int(result) == form.encode(exact, mode), (name, [hex(b) for b in bits])
            else:
                assert int(result) & ~form.sign == 0


@pytest.mark.parametrize("form", [F16, BF16], ids=lambda form: form.name)
def test_packed_pairs(form: Format) -> None:
    rng = np.random.default_rng(7)
    halves = [draw_floats(rng, form).astype(np.uint32) for _ in range(6)]
    a, b, c = (low | high << np.uint32(16) for low, high in zip(halves[:3], halves[3:], strict=True))
    found = apply(f"fma.rn.{form.name}x2 {{d}}, {{a}}, {{b}}, {{c}}", "u4", a, b, c)
    for offset in (0, 16):
        single = [((x >> np.uint32(offset)) & np.uint32(0xFFFF)).astype(np.uint16) for x in (a, b, c)]
        expected = apply(f"fma.rn.{form.name} {{d}}, {{a}}, {{b}}, {{c}}", "u2", *single)
        assert ((found >> np.uint32(offset)) & np.uint32(0xFFFF)).tolist() == expected.tolist()
    floats = [draw_floats(rng, F32) for _ in range(2)]
    packed = apply(f"cvt.rn.{form.name}x2.f32 {{d}}, {{a}}, {{b}}", "u4", *floats)
    for bits, upper, lower in zip(packed, *floats, strict=True):
        expected = [
            form.encode(F32.decode(int(x)), "rn") if int(x) & ~F32.sign else int(x) >> 16 for x in (lower, upper)
        ]
        assert int(bits) == expected[0] | expected[1] << 16


@pytest.mark.parametrize("form", [F32, F64], ids=lambda form: form.name)
def test_square_roots_and_reciprocals(form: Format) -> None:
    a = draw_floats(np.random.default_rng(8), form) & np.array(form.sign - 1, f"u{form.size}")
    a[a == 0] = 1
    roots = apply(f"sqrt.rn.{form.name} {{d}}, {{a}}", f"u{form.size}", a)
    reciprocals = apply(f"rcp.rn.{form.name} {{d}}, {{a}}", f"u{form.size}", a)
    for bits, root, reciprocal in zip(map(int, a), map(int, roots), map(int, reciprocals), strict=True):
        value = form.decode(bits)
        below, above = ((form.decode(root + step) + form.decode(root)) / 2 for step in (-1, 1))
        assert below**2 <= value <= above**2
        assert reciprocal == form.encode(1 / value, "rn")


def test_subnormal_numbers_are_flushed_and_results_saturated() -> None:
    tiny = np.full(LANES, 0x00400000, np.uint32)
    one = np.full(LANES, 0x3F800000, np.uint32)
    assert (apply("mul.rn.f32 {d}, {a}, {b}", "u4", tiny, one) == tiny).all()
    assert (apply("mul.rn.ftz.f32 {d}, {a}, {b}", "u4", tiny, one) == 0).all()
    numbers = np.resize(np.array([-2.0, -0.0, 0.25, 1.0, 3.5, np.nan, np.inf], np.float32), LANES)
    found = apply("add.rn.sat.f32 {d}, {a}, {b}", "u4", numbers.view(np.uint32), np.zeros(LANES, np.uint32))
    assert found.view(np.float32).tolist() == np.clip(np.nan_to_num(numbers, nan=0), 0, 1).tolist()


SPECIAL = np.array([-np.inf, -1.5, -0.0, 0.0, 1.0, np.inf, np.nan], np.float32)


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
@pytest.mark.parametrize("unordered", [False, True])
def test_comparisons_of_floating_point(name: str, unordered: bool) -> None:
    pairs = np.array([(x, y) for x in SPECIAL for y in SPECIAL], np.float32)
    a, b = (np.resize(pairs[:, k], 64) for k in range(2))
    found = apply(f"setp.{name}{'u' * unordered}.f32 {{d}}, {{a}}, {{b}}", "pred", a.view(np.uint32), b.view(np.uint32))
    nan = np.isnan(a) | np.isnan(b)
    assert found.astype(bool).tolist() == np.where(nan, unordered, getattr(operator, name)(a, b)).tolist()


@pytest.mark.parametrize("kind", ["s32", "u32", "s64", "u64", "b32"])
def test_comparisons_of_integers(kind: str) -> None:
    bits, rng = int(kind[1:]), np.random.default_rng(9)
    a, b = (draw_bits(rng, bits // 8) for _ in range(2))
    for name in ("eq", "ne") if kind[0] == "b" else ("eq", "ne", "lt", "le", "gt", "ge"):
        found = apply(f"setp.{name}.{kind} {{d}}, {{a}}, {{b}}", "pred", a, b)
        numbers = [[signed(int(x), bits) if kind[0] == "s" else int(x) for x in array] for array in (a, b)]
        assert found.tolist() == [getattr(operator, name)(x, y) for x, y in zip(*numbers, strict=True)]


@pytest.mark.parametrize("kind", ["s32", "u32", "s64", "u64", "s16", "u8"])
@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
def test_conversions_to_integers_saturate(kind: str, mode: str) -> None:
    rng, bits = np.random.default_rng(10), int(kind[1:])
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
    numbers = np.ldexp(rng.standard_normal(COUNT), rng.integers(-3, 70, COUNT)).astype(np.float32)
    numbers[:7] = [np.nan, np.inf, -np.inf, 0.5, -0.5, 1.5, 2.5]
    size = max(bits // 8, 2)
    found = apply(f"cvt.{mode}.{kind}.f32 {{d}}, {{a}}", f"u{size}", numbers.view(np.uint32))
    rounding = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}[mode]
    for result, number in zip(found, map(float, numbers), strict=True):
        if math.isnan(number):
            expected = 0
        elif math.isinf(number):
            expected = high if number > 0 else low
        else:
            expected = min(max(rounding(Fraction(number)), low), high)
        assert int(result) == expected % (1 << 8 * size), number


@pytest.mark.parametrize("form", [F32, F64, F16], ids=lambda form: form.name)
@pytest.mark.parametrize("kind", ["s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_conversions_from_integers(kind: str, mode: str, form: Format) -> None:
    bits = int(kind[1:])
    a = draw_bits(np.random.default_rng(11), bits // 8)
    found = apply(f"cvt.{mode}.{form.name}.{kind} {{d}}, {{a}}", f"u{form.size}", a)
    for result, x in zip(found, a, strict=True):
        number = signed(int(x), bits) if kind[0] == "s" else int(x)
        assert int(result) == (form.encode(Fraction(number), mode) if number else 0), number


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize(("wide", "narrow"), [(F64, F32), (F32, F16), (F32, BF16), (F64, F16)], ids=lambda f: f.name)
def test_conversions_between_formats(wide: Format, narrow: Format, mode: str) -> None:
    a = draw_floats(np.random.default_rng(12), wide)
    found = apply(f"cvt.{mode}.{narrow.name}.{wide.name} {{d}}, {{a}}", f"u{narrow.size}", a)
    for result, x in zip(found, map(int, a), strict=True):
        value = wide.decode(x)
        assert int(result) == (narrow.encode(value, mode) if value else (narrow.sign if x & wide.sign else 0))
    back = apply(f"cvt.{wide.name}.{narrow.name} {{d}}, {{a}}", f"u{wide.size}", found)
    for result, x in zip(map(int, back), map(int, found), strict=True):
        if x & narrow.infinity != narrow.infinity:
            assert wide.decode(result) == narrow.decode(x)


def test_integer_conversions_extend_and_saturate() -> None:
    a = draw_bits(np.random.default_rng(13), 4)
    numbers = [signed(int(x), 32) for x in a]
    assert apply("cvt.s64.s32 {d}, {a}", "u8", a).tolist() == [x % (1 << 64) for x in numbers]
    assert apply("cvt.u64.u32 {d}, {a}", "u8", a).tolist() == a.tolist()
    assert apply("cvt.s32.s8 {d}, {a}", "u4", a).tolist() == [signed(int(x) & 255, 8) % (1 << 32) for x in a]
    assert apply("cvt.sat.u16.s32 {d}, {a}", "u2", a).tolist() == [min(max(x, 0), 65535) for x in numbers]


@pytest.mark.parametrize(
    ("name", "model", "limit"),
    [
        ("ex2.approx.ftz", np.exp2, 2**-22),
        ("lg2.approx", np.log2, 2**-22),
        ("rsqrt.approx", lambda x: x**-0.5, 2**-22),
        ("sqrt.approx", np.sqrt, 2**-22),
        ("rcp.approx", lambda x: 1 / x, 2**-23),
    ],
)
def test_approximations_are_within_their_documented_errors(
    name: str, model: Callable[[Any], Any], limit: float
) -> None:
    a = np.random.default_rng(14).uniform(2, 20, COUNT).astype(np.float32)
    found = apply(f"{name}.f32 {{d}}, {{a}}", "u4", a.view(np.uint32)).view(np.float32)
    np.testing.assert_allclose(found, model(a.astype(np.float64)), rtol=limit)


def test_shuffles_votes_and_matches() -> None:
    a = np.arange(100, 100 + LANES, dtype=np.uint32)
    lanes = np.arange(LANES)
    full = "0xffffffff"
    shuffles = {
        f"shfl.sync.idx.b32 {{d}}, {{a}}, 5, 31, {full}": np.full(LANES, 105),
        f"shfl.sync.up.b32 {{d}}, {{a}}, 3, 0, {full}": a - np.where(lanes >= 3, 3, 0),
        f"shfl.sync.down.b32 {{d}}, {{a}}, 3, 31, {full}": a + np.where(lanes < 29, 3, 0),
        f"shfl.sync.bfly.b32 {{d}}, {{a}}, 6, 31, {full}": 100 + (lanes ^ 6),
        f"shfl.sync.down.b32 {{d}}, {{a}}, 2, {24 << 8 | 31}, {full}": a + np.where(lanes % 8 < 6, 2, 0),
        f"redux.sync.add.u32 {{d}}, {{a}}, {full}": np.full(LANES, a.sum()),
        f"redux.sync.max.s32 {{d}}, {{a}}, {full}": np.full(LANES, 131),
        f"match.any.sync.b32 {{d}}, {{a}}, {full}": 1 << lanes,
        "activemask.b32 {d}": np.full(LANES, 0xFFFFFFFF),
    }
    for instruction, expected in shuffles.items():
        assert apply(instruction, "u4", a).tolist() == expected.tolist(), instruction
    ballot = "{{{{ .reg .pred %q; setp.lt.u32 %q, {{a}}, 110; vote.sync.{}.{} {{d}}, %q, 0xffffffff; }}}}"
    assert (apply(ballot.format("ballot", "b32"), "u4", a) == 0x3FF).all()
    for mode, expected in (("any", 1), ("all", 0), ("uni", 0)):
        assert (apply(ballot.format(mode, "pred"), "pred", a) == expected).all()


@pytest.mark.parametrize(
    ("operation", "model"),
    [
        ("add.u32", lambda old, x: old + x),
        ("min.s32", lambda old, x: min(signed(old, 32), signed(x, 32))),
        ("max.u32", max),
        ("and.b32", operator.and_),
        ("or.b32", operator.or_),
        ("xor.b32", operator.xor),
        ("exch.b32", lambda old, x: x),
        ("inc.u32", lambda old, x: 0 if old >= x else old + 1),
        ("dec.u32", lambda old, x: x if old == 0 or old > x else old - 1),
    ],
)
def test_atomic_operations(operation: str, model: Callable[[int, int], int]) -> None:
    """One lane after the other finds what another has left."""
    device, values = Device(), draw_bits(np.random.default_rng(15), 4)[:LANES]
    text = f"""{HEADER}.visible .entry k(.param .u64 at, .param .u64 in, .param .u64 out) {{
        .reg .b64 %rd<5>; .reg .b32 %r<4>;
        ld.param.u64 %rd0, [at]; ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
        mov.u32 %r0, %tid.x; mul.wide.u32 %rd3, %r0, 4; add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3;
        ld.global.u32 %r1, [%rd1]; atom.global.{operation} %r2, [%rd0], %r1; st.global.u32 [%rd2], %r2; ret; }}"""
    cell, out = device.buffer(np.array([77], np.uint32)), device.empty(LANES, np.uint32)
    device.load(text).launch(1, LANES, cell, device.read_only(values), out)
    old = 77
    for value, found in zip(map(int, values), map(int, out.array), strict=True):
        assert found == old
        old = model(old, value) % (1 << 32)
    assert cell.array[0] == old


def test_division_by_zero_is_an_error() -> None:
    zeros = np.zeros(LANES, np.uint32)
    with pytest.raises(PtxError) as raised:
        apply("div.s32 {d}, {a}, {b}", "u4", zeros, zeros)
    assert raised.value.kind == "arithmetic"
