"""The names of a host and its user are taken out of texts, and nothing else is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.profiling.machine.identity import Identity, find_identity

ALICE = Identity(frozenset({"/home/alice"}), frozenset({"alice"}), frozenset({"skynet-7.example.org", "skynet-7"}))


@pytest.mark.parametrize(
    ("text", "told"),
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
def test_a_text_names_neither_home_nor_user_nor_host(text: str, told: str) -> None:
    assert ALICE.out_of(text) == told


@given(st.text())
def test_what_holds_no_name_stays_as_it_is(text: str) -> None:
    if not any(name in text for name in ("alice", "skynet")):
        assert ALICE.out_of(text) == text


def test_ordinary_names_are_words_like_others() -> None:
    assert Identity(frozenset(), frozenset({"root"}), frozenset({"gpu", "a"})).out_of("/root/a gpu") == "/root/a gpu"


def test_the_words_of_a_schema_are_left_in_json() -> None:
    measured = Identity(frozenset(), frozenset({"measured"}), frozenset({"matmul"}))
    written = json.dumps({"status": "measured", "benchmark": "matmul", "reason": "matmul is away", "matmul": 1})
    told = json.loads(measured.out_of_json(written))
    assert told == {"status": "measured", "benchmark": "matmul", "reason": "localhost is away", "matmul": 1}


def test_json_without_a_name_is_the_very_same_text() -> None:
    written = '{"x":  1e-05, "y": "é"}'
    assert ALICE.out_of_json(written) == written


def test_the_names_are_those_of_the_system_and_of_the_environment() -> None:
    found = find_identity({"HOME": "/peculiar", "USER": "someone", "HOSTNAME": "far.away.example"})
    assert "/peculiar" in found.homes
    assert "someone" in found.users
    assert {"far.away.example", "far"} <= found.hosts
