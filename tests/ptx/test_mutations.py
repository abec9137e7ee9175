"""Synchronisation that is removed from the kernels' PTX: executing the kernels finds it."""

from __future__ import annotations

import pytest

from tests.ptx.mutations import CASES, Mutation, is_found, mutations, text_and_lines

pytestmark = [pytest.mark.needs("g++"), pytest.mark.slow]

REDUNDANT = {
    # The last copies of a kernel fill memory that it no longer reads.
    "mma": 1,
    # A fence between products of one shape, the barriers of warps before those of all, and the end of the cluster.
    "wgmma": 4,
}
"""Instructions without which a kernel still computes the same."""


@pytest.mark.parametrize("case", [case for case in CASES if case != "wgmma"])
def test_missing_synchronisation_is_found(case: str) -> None:
    check_removals(case)


@pytest.mark.exhaustive
def test_missing_synchronisation_between_warpgroups_is_found() -> None:
    check_removals("wgmma")


def check_removals(case: str) -> None:
    text, executed = text_and_lines(case)
    removals = [mutation for mutation in mutations(text) if mutation.removes and mutation.line in executed]
    assert removals
    survivors = [mutation for mutation in removals if not is_found(case, mutation)]
    assert len(survivors) <= REDUNDANT.get(case, 0), survivors


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
        assert (part in found[rule].apply(text)) != found[rule].removes
    assert isinstance(found["negate a guard"], Mutation)
    assert found["negate a guard"].line == 5
