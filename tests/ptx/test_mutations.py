"""Errors planted into the kernels' PTX: executing the kernels finds them."""

from __future__ import annotations

import pytest

from tests.ptx.mutations import CASES, Mutation, is_found, mutations, outcome_of, sample, text_and_lines

pytestmark = [pytest.mark.needs("g++"), pytest.mark.slow]

REDUNDANT = {
    # Only one block adds to each counter.
    "atomics": 1,
    # A fence between products of one shape, and barriers of warps before those of all.
    "wgmma": 3,
    # The fences order the accesses to the flag of a vacant shelf, too.
    "pool": 1,
}
"""Changes after which a kernel is still right."""


@pytest.mark.parametrize("case", [case for case in CASES if case not in ("vectors", "wgmma")])
def test_missing_synchronisation_is_found(case: str) -> None:
    check_synchronisation(case)


@pytest.mark.exhaustive
@pytest.mark.timeout(1200)
def test_missing_synchronisation_between_warpgroups_is_found() -> None:
    check_synchronisation("wgmma")


def check_synchronisation(case: str) -> None:
    text, executed = text_and_lines(case)
    changes = [mutation for mutation in mutations(text) if mutation.unsynchronises and mutation.line in executed]
    assert changes
    survivors = [mutation for mutation in changes if not is_found(case, mutation)]
    assert len(survivors) <= REDUNDANT.get(case, 0), survivors


@pytest.mark.parametrize("case", ["dot", "vectors", "mma"])
def test_wrong_computations_are_found(case: str) -> None:
    """Some mutants compute other values that no result depends on: at most one in five."""
    outcomes = [outcome_of(case, mutation) for mutation in sample(case, 15)]
    assert outcomes.count("found") >= 10
    assert outcomes.count("missed") <= 3


def test_a_probe_stops_where_the_changed_instruction_differs() -> None:
    text = "k()\n{\n\tsetp.lt.s32 \t%p1, %r1, 9;\n\tst.global.u32 [%rd1+4], %r1;\n}"
    probes = {mutation.rule: mutation.probe(text) for mutation in mutations(text)}
    assert probes.pop("remove a store") is None
    assert probes.pop("shift an address") is None
    for probe in probes.values():
        assert probe is not None
        assert "setp.lt.s32 \t%p1, %r1, 9;" in probe
        assert "trap;" in probe
    assert "setp.le.s32 other, %r1, 9;" in str(probes["change a comparison"])
    assert "setp.lt.s32 other, %r1, 10;" in str(probes["change a constant"])


def test_a_mutation_replaces_one_part() -> None:
    text = "k()\n{\nbar.sync 0;\nadd.s32 %r1, %r2, 7;\n@%p1 bra end;\nld.global.f32 %f1, [%rd1+4];\n}"
    found = {mutation.rule: mutation for mutation in mutations(text)}
    changed = {
        "remove bar.sync": "bar.sync 0;",
        "change an operation": "sub.s32 %r1, %r2, 7;",
        "change a constant": "add.s32 %r1, %r2, 8;",
        "negate a guard": "@!%p1 bra end;",
        "shift an address": "[%rd1+20]",
    }
    assert found.keys() == changed.keys()
    for rule, part in changed.items():
        assert (part in found[rule].apply(text)) != found[rule].unsynchronises
    assert isinstance(found["negate a guard"], Mutation)
    assert found["negate a guard"].line == 5
