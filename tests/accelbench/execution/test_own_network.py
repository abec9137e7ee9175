"""What a network of its own keeps away."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from tests.conftest import environment
from tests.requirements import not_tested

LISTEN = """
import os, socket, sys
from accelbench.execution.own_network import leave_network
left = leave_network()
listener = socket.create_server(("", 0))
port = listener.getsockname()[1]
socket.create_connection(("127.0.0.1", port)).close()
print(left, port, os.geteuid(), flush=True)
sys.stdin.read()
"""


@pytest.mark.needs("namespaces")
def test_what_listens_in_a_network_of_its_own_is_reached_by_itself_alone() -> None:
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
            not_tested("namespaces", "this system allows no network of its own")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", int(port)))
        process.communicate()
