"""Tests of the isolated network."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from tests.conftest import environment
from tests.requirements import not_tested

LISTEN = """
import os, socket, sys
from accelbench.execution.own_network import isolate_network
left = isolate_network()
listener = socket.create_server(("", 0))
port = listener.getsockname()[1]
socket.create_connection(("127.0.0.1", port)).close()
print(left, port, os.geteuid(), flush=True)
sys.stdin.read()
"""


@pytest.mark.needs("namespaces")
def test_a_port_in_an_isolated_network_is_unreachable_from_outside() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", LISTEN],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    with process:
        assert process.stdout is not None
        left, port, _ = process.stdout.readline().split()
        if left == "False":
            process.communicate()
            not_tested("namespaces", "this system allows no network namespace")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", int(port)))
        process.communicate()
