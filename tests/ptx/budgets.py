"""Instruction budgets of the project's kernels: counts per unit of work, and the bounds that they predict.

The interpreter counts how often each line of the PTX is issued, and the assembler's line table names the line of each
machine instruction: together they give the issue slots of every pipe. No GPU is involved, and latencies, caches and the
order of warps are not modelled, so that a bound is a rate that the kernel does not exceed, not one that it reaches.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from accelbench.kernels.lib.gpu.compilation import Capability, _tool
from accelbench.kernels.treesearch.uts.trees import Geometric
from accelbench.profiling.machine.vendor_peaks import CardPeaks, cards
from tests.ptx import test_matrix_kernels as matrix
from tests.ptx import test_memory_kernels as memory
from tests.ptx import test_search_kernels as searches
from tests.ptx.kernels import Bench
from tests.ptx.machine import Device, Launched, Tally
from tests.ptx.sources import module_of

WARP = 32
SCHEDULERS = 4
"""Warp instructions that a multiprocessor issues per cycle (CUDA C++ Programming Guide 12.9, 20.6 to 20.10)."""
COLUMNS: tuple[Capability, ...] = ((7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0))
"""Compute capabilities of the columns of `PIPES`."""
PIPES: dict[str, tuple[str, tuple[int, ...]]] = {
    # "32-bit floating-point add, multiply, multiply-add"; integer products share the pipe (Profiling Guide: fma)
    "FP32": (r"FFMA|FADD|FMUL|IMAD|IDP", (64, 64, 128, 128, 128, 128, 128)),
    # The same row: two results of each thread
    "packed FP32": (r"(FFMA|FADD|FMUL)2", (32, 32, 64, 64, 64, 64, 64)),
    # "32-bit integer multiply, multiply-add"; dot products and moves by IMAD run there (Profiling Guide: fmaheavy)
    "integer multiplication": (r"IMAD|IDP", (64, 64, 64, 64, 64, 64, 64)),
    # "3-operand addition", "32-bit integer shift", "bitwise AND, OR, XOR", "compare, minimum, maximum", "bit reverse",
    # "Type conversions from 8-bit and 16-bit integer", "between 32-bit integer and 32-bit floating-point" (I2FP). The
    # Profiling Guide (alu) adds bit manipulation and packed conversions to 16 bits (F2FP). Not in either: MOV and the
    # selections.
    "ALU": (
        r"IADD3?|VIADD|LEA|LOP3?|PLOP3|SHF|SHL|SHR|[IF]SETP|V?[IF]MNMX3?|VIADDMNMX|[IF]?SEL|PRMT|BMSK|SGXT|MOV|F2FP"
        r"|I2FP|I2I|BREV",
        (64, 64, 64, 64, 64, 64, 64),
    ),
    # "16-bit floating-point add, multiply, multiply-add (2-way SIMD)"
    "FP16": (r"H(ADD|MUL|FMA)2|HMNMX2|HSETP2", (64, 128, 64, 64, 128, 64, 64)),
    # "64-bit floating-point add, multiply, multiply-add"
    "FP64": (r"D(ADD|MUL|FMA|SETP)", (2, 32, 2, 2, 64, 64, 2)),
    # "32-bit approximate floating-point reciprocal, …", "population count", "count of leading zeros", "float->32-bit
    # integer type"; other conversions and roundings: Profiling Guide (xu), with the rate of the special functions
    "special functions": (r"MUFU|POPC|FLO|I2F|F2I|F2F|FRND", (16, 16, 16, 16, 16, 16, 16)),
    # "warp shuffle"
    "shuffles": (r"SHFL", (16, 32, 32, 32, 32, 32, 32)),
}
"""By pipe, the machine instructions that it executes, and threads per cycle of a multiprocessor by capability.

The rows in quotation marks are those of NVIDIA's CUDA C++ Best Practices Guide 13, section 12.1.1, table 5; "Profiling
Guide": Nsight Compute Profiling Guide 2.3.6, "Pipelines". Where a source states a higher rate than another one, the
higher rate is used, so that a bound is not too low: the table has 16 conversions from float32 to 16 bits.
"""
FASTER: dict[Capability, str] = {
    (10, 0): r"ISETP|V?IMNMX3?|VIADDMNMX",
    (12, 0): r"ISETP|V?IMNMX3?|VIADDMNMX|IADD|VIADD|MOV|SEL",
}
"""Instructions of the ALU that the issue slots limit instead, 128 threads per cycle.

The same table: "32-bit integer compare, minimum, maximum" and, as of 12.0, additions of two operands; before, these
reach 128 only together with IMAD. At 12.0, part of the ALU is in the FP32 pipe (Profiling Guide: alulite). MOV and SEL
are in neither source.
"""
MMA = re.compile(r"mma(?:_async)?\.sync\.aligned\.m(\d+)n(\d+)k(\d+)\.(?:row\.col\.)?f(?:32|64)\.(\w+)")
TENSOR_DTYPES = {"f16": "float16", "bf16": "bfloat16", "tf32": "tf32", "f64": "float64"}


@dataclass(frozen=True)
class Case:
    """A kernel, and an execution of it that is large enough for its loop to dominate."""

    kernel: str
    """Name in `device_code`."""
    unit: str
    """Unit of work: `node`, `element`."""
    run: Callable[[Bench], float]
    """Function that executes the kernel and returns the units of work."""
    streams: bool = False
    """Whether the bytes that the kernel touches per unit do not depend on the size of the problem."""


@dataclass(frozen=True)
class Budget:
    """Counts of a kernel per unit of work, for one compute capability."""

    case: Case
    capability: Capability
    units: float
    tally: Tally
    """Totals of the PTX instructions."""
    touched_bytes: int
    slots: Counter[str]
    """Issued machine instructions by opcode."""
    tensor: dict[str, float]
    """FLOP of the tensor cores by dtype."""

    def cycles(self, capability: Capability) -> dict[str, float]:
        """Return the cycles of a multiprocessor of that capability per unit of work, by pipe."""
        column = COLUMNS.index(capability)
        found = {"issue": self.slots.total() / SCHEDULERS, "shared memory": float(self.tally.wavefronts)}
        for pipe, (opcodes, lanes) in PIPES.items():
            if pipe == "ALU" and capability in FASTER:
                opcodes = rf"(?!(?:{FASTER[capability]})$)(?:{opcodes})"
            issued = sum(count for opcode, count in self.slots.items() if re.fullmatch(opcodes, opcode))
            found[pipe] = issued * WARP / lanes[column]
        return {pipe: cycles / self.units for pipe, cycles in found.items()}


@dataclass(frozen=True)
class Bound:
    """Predicted maximum rate of a kernel on a card."""

    card: CardPeaks
    rate: float
    """Units of work per second."""
    pipe: str


def matrix_flop(sizes: tuple[int, int, int]) -> float:
    m, n, k = sizes
    return 2 * m * n * k / 1000


def cases() -> Iterator[Case]:
    """Yield the kernels with a unit of work."""
    for dtype in ("float32", "float64", "int32", "int64"):
        yield on_memory(f"reduce numba {dtype}", memory.reduce_sum(dtype, 1 << 17, 1), 1 << 17)
    yield on_memory("norm numba", memory.norm(4, 8192), 4 * 8192)
    yield on_memory("softmax-xent numba", memory.softmax(2, 32_000), 2 * 32_000)
    yield on_memory("optimizer-step numba", memory.optimizer(1 << 13), 1 << 13)
    for dtype in ("float32", "float64"):
        for op in (*memory.ELEMENTWISE, "dot"):
            length = 1 << 15
            yield on_memory(f"stream numba {op} {dtype}", memory.stream_numba(op, dtype, length), length)
            vectors = length * np.dtype(dtype).itemsize // 16
            yield on_memory(f"stream cupy {op} {dtype}", memory.stream_cupy(op, dtype, vectors), length)
    for dtype in ("float32", "float64"):
        tiled = module_of(f"matmul numba {dtype} parts").TILED[dtype]
        for kind in tiled:
            sizes = (128, 128, 256)
            run = partial(matrix.check_numba, dtype=dtype, kind=kind.name, sizes=sizes)
            yield Case(f"matmul numba {dtype} {kind.name}", "kFLOP", counting(run, matrix_flop(sizes)))
    for dtype in matrix.HALF:
        sizes = (256, 256, 256)
        for tile in ("", "narrow"):
            run = partial(matrix.check_mma, dtype=dtype, tile=tile, parts=1, sizes=sizes)
            yield Case(f"matmul mma {dtype} {tile}".strip(), "kFLOP", counting(run, matrix_flop(sizes)))
        run = partial(matrix.check_wgmma, dtype=dtype, parts=1, sizes=sizes)
        yield Case(f"matmul wgmma {dtype}", "kFLOP", counting(run, matrix_flop(sizes)))
        for head in (64, 128):
            run = partial(matrix.check_attention, dtype=dtype, head=head, sequence=512, causal=False)
            yield Case(f"attention mma {dtype} {head}", "kFLOP", counting(run, 2 * matrix_flop((512, 512, head))))
    yield Case("nqueens tuned", "node", search_queens)
    yield Case("uts sharing", "node", search_tree)


def counting(run: Callable[[Bench], object], units: float) -> Callable[[Bench], float]:
    def counted(bench: Bench) -> float:
        run(bench)
        return units

    return counted


def on_memory(kernel: str, check: memory.Check, units: int) -> Case:
    return Case(kernel, "element", counting(lambda bench: check(bench, np.random.default_rng(1)), units), streams=True)


def search_queens(bench: Bench) -> float:
    """Search with large subtrees: taking the next task is rare, as on boards of 18 and more queens."""
    module = module_of("nqueens tuned")
    tasks = module.cut(14, 2000, module.LOOK_AHEAD)[:640]
    nodes, _ = searches.search_tasks(bench, tasks, 1)
    return float(nodes.sum())


def search_tree(bench: Bench) -> float:
    """Search by one block, so that no block waits for work of others."""
    module, tree = module_of("uts sharing"), searches.counted(Geometric(4, "fixed", 6), 42)
    with searches.pool_on(bench, module):
        found = module.verify_search(tree, module.search_of(tree, blocks=1, slots=1 << 12, threads=128))
    assert found.passed, found
    return float(tree.nodes)


def measure(case: Case, capability: Capability) -> Budget:
    """Execute a kernel's PTX for a compute capability and count; RuntimeError if it does not compile."""
    bench = Bench(capability, races=False, device=Device(counts=True))
    units = case.run(bench)
    launched = max(bench.device.launched, key=lambda each: each.counts.warp_instructions)
    tallies = launched.counts.tallies
    slots: Counter[str] = Counter()
    for line, opcode in machine_code(launched.text, launched.entry):
        slots[opcode] += tallies.get(line, Tally()).issued
    total = Tally.total(tallies.values())
    return Budget(case, capability, units, total, launched.counts.touched_bytes, slots, tensor_flop(launched))


def tensor_flop(launched: Launched) -> dict[str, float]:
    """Return the FLOP of the executed matrix instructions by dtype; the four warps of a wgmma share it."""
    found: Counter[str] = Counter()
    for number, line in enumerate(launched.text.splitlines(), 1):
        if number in launched.counts.tallies and (match := MMA.search(line)):
            m, n, k = map(int, match.groups()[:3])
            warps = launched.counts.tallies[number].lanes / WARP / (4 if "wgmma" in line else 1)
            found[TENSOR_DTYPES[match[4]]] += 2 * m * n * k * warps
    return dict(found)


@cache
def machine_code(text: str, entry: str) -> list[tuple[int, str]]:
    """Return the (line of the PTX, opcode without modifiers) of each machine instruction of a kernel."""
    (target,) = re.findall(r"^\.target (sm_\w+)", text, re.MULTILINE)
    with TemporaryDirectory() as folder:
        source, binary = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(text, encoding="utf-8")
        run(_tool("ptxas"), f"-arch={target}", "-lineinfo", str(source), "-o", str(binary))
        listed = run(_tool("nvdisasm"), "-gp", "-c", str(binary))
    section = listed.partition(f"\n.text.{entry}:")[2].partition("//-----")[0]
    line, found = 0, []
    for each in section.splitlines():
        if place := re.search(r'"\.nv_debug_ptx_txt", line (\d+)', each):
            line = int(place[1])
        elif code := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?\w+ )?(\w+)", each):
            found.append((line, code[1]))
    while found[-1][1] == "NOP":
        found.pop()
    return found[:-1]  # every kernel ends with a branch to itself, which is not executed


def run(*command: str) -> str:
    outcome = subprocess.run(command, capture_output=True, text=True)
    if outcome.returncode != 0:
        raise RuntimeError(f"{command[0]}: {outcome.stderr or outcome.stdout}")
    return outcome.stdout


def predict(budget: Budget, card: CardPeaks) -> Bound | None:
    """Return the predicted bound of a kernel on a card; None if the card's vendor states no peak in float32.

    The peak in float32 is multiprocessors × clock × lanes × 2, of which `PIPES` has the lanes.
    """
    plain = card.flops.get("float32", {}).get("plain")
    if plain is None or card.capability is None:
        return None
    lanes = PIPES["FP32"][1][COLUMNS.index(card.capability)]
    per_second = plain / (2 * lanes)  # cycles of all multiprocessors
    seconds = {pipe: cycles / per_second for pipe, cycles in budget.cycles(card.capability).items()}
    for dtype, flop in budget.tensor.items():
        if peak := card.flops.get(dtype, {}).get("tensor"):
            seconds["tensor cores"] = flop / budget.units / peak
    if budget.case.streams and card.bandwidth:
        seconds["device memory"] = budget.touched_bytes / budget.units / card.bandwidth
    pipe = max(seconds, key=lambda each: seconds[each])
    return Bound(card, 1 / seconds[pipe], pipe)


def bounds(budgets: Mapping[Capability, Budget]) -> list[Bound]:
    """Return the bounds of a kernel on all cards that it runs on; 8.6 executes the code for 8.0."""
    found = []
    for card in cards():
        budget = budgets.get((8, 0) if card.capability == (8, 6) else card.capability) if card.capability else None
        if budget is not None and (bound := predict(budget, card)):
            found.append(bound)
    return found
