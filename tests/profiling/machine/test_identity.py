"""Tests of the anonymization of texts: names of user and host are replaced, other text is unchanged."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.profiling.machine.identity import Identity, find_identity

ALICE = Identity(frozenset({"/home/alice"}), frozenset({"alice"}), frozenset({"skynet-7.example.org", "skynet-7"}))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('File "/home/alice/bench/x.py", line 3', 'File "~/bench/x.py", line 3'),
        ("--out=/home/alice/runs", "--out=~/runs"),
        ("file:///home/alice", "file://~"),
        ("no space left in /home/alice.", "no space left in ~."),
        ("/home/alice2/x and /srv/home/alice.old", "/home/alice2/x and /srv/home/alice.old"),
        ("/scratch/alice/data, /scratch/alice", "/scratch/user/data, /scratch/user"),
        ("alice@skynet-7:22 refused", "user@localhost:22 refused"),
        ("cannot reach skynet-7.example.org", "cannot reach localhost"),
        ("skynet-77 and my-skynet-7 are others", "skynet-77 and my-skynet-7 are others"),
        ("alice in wonderland", "alice in wonderland"),
    ],
)
def test_home_user_and_host_are_replaced_in_text(text: str, expected: str) -> None:
    assert ALICE.anonymize(text) == expected


@given(st.text())
def test_text_without_names_is_unchanged(text: str) -> None:
    if not any(name in text for name in ("alice", "skynet")):
        assert ALICE.anonymize(text) == text


def test_common_names_are_not_replaced() -> None:
    assert Identity(frozenset(), frozenset({"root"}), frozenset({"gpu", "a"})).anonymize("/root/a gpu") == "/root/a gpu"


def test_terms_of_the_schema_are_unchanged_in_json() -> None:
    measured = Identity(frozenset(), frozenset({"measured"}), frozenset({"matmul"}))
    written = json.dumps({"status": "measured", "benchmark": "matmul", "reason": "matmul is away", "matmul": 1})
    expected = json.loads(measured.anonymize_json(written))
    assert expected == {"status": "measured", "benchmark": "matmul", "reason": "localhost is away", "matmul": 1}


def test_json_without_names_is_unchanged() -> None:
    written = '{"x":  1e-05, "y": "é"}'
    assert ALICE.anonymize_json(written) == written


def test_names_are_found_in_the_system_and_in_environment_variables() -> None:
    found = find_identity({"HOME": "/peculiar", "USER": "someone", "HOSTNAME": "far.away.example"})
    assert "/peculiar" in found.homes
    assert "someone" in found.users
    assert {"far.away.example", "far"} <= found.hosts
