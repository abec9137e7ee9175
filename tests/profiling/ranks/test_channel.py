"""Channels: messages arrive complete and in order, and an invalid message ends the connection."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.profiling.ranks.channel import Address, Channel

SOON = 10.0

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
messages = st.lists(st.dictionaries(st.text(), values, max_size=3), max_size=5)


@contextmanager
def pair(limit: int = 1000) -> Iterator[tuple[socket.socket, Channel]]:
    """Yield a socket and the channel at its other end."""
    plain, end = socket.socketpair()
    channel = Channel(end, limit)
    with plain:
        yield plain, channel
    channel.close()


def read_all(channel: Channel) -> list[dict[str, Any]]:
    found = []
    while channel.open:
        found += channel.read()
    return found


@given(sent=messages, complete=st.booleans(), data=st.data())
def test_messages_arrive_complete_and_in_order_wherever_they_are_split(
    sent: list[dict[str, Any]], complete: bool, data: st.DataObject
) -> None:
    ascii_only = data.draw(st.booleans())  # another program may send unescaped characters
    lines = [json.dumps(message, ensure_ascii=ascii_only).encode() for message in sent]
    stream = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    found = []
    with pair(limit=1 << 20) as (plain, channel):
        for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            if end > begin:
                plain.sendall(stream[begin:end])
                found += channel.read()
        plain.sendall(b"" if complete else b'{"half": ')
        plain.shutdown(socket.SHUT_WR)
        found += read_all(channel)
        assert channel.fault is None
    assert found == sent


@given(sent=messages)
def test_a_sent_message_is_received(sent: list[dict[str, Any]]) -> None:
    one, other = map(Channel, socket.socketpair())
    for message in sent:
        assert one.send(message=message)
        assert other.receive() == {"message": message}
    one.close()
    assert other.receive() is None
    assert not other.open
    other.close()


def test_the_record_of_a_long_training_run_is_one_message() -> None:
    one, other = map(Channel, socket.socketpair())
    steps = [0.001 + step * 1e-9 for step in range(200_000)]
    with ThreadPoolExecutor() as pool:
        sending = pool.submit(one.send, record={"samples": steps})
        assert other.receive() == {"record": {"samples": steps}}
        assert sending.result()
    one.close()
    other.close()


@pytest.mark.parametrize("ended", [True, False], ids=["complete line", "line without end"])
def test_a_line_over_the_limit_ends_the_connection_after_the_messages_before_it(ended: bool) -> None:
    with pair(limit=100) as (plain, channel):
        longest = json.dumps({"a": "x" * 91}).encode()
        assert len(longest) == channel.limit
        plain.sendall(longest + b"\n" + longest + b" " + b"\n" * ended)
        if ended:
            plain.sendall(longest + b"\n")
        assert read_all(channel) == [{"a": "x" * 91}]
        assert '100 bytes): b\'{"a": "xxx' in str(channel.fault)
        assert channel.read() == []
        with pytest.raises(ValueError, match=r"101 bytes .* 100 bytes"):
            channel.send(a="x" * 92)


@pytest.mark.parametrize("line", [b"GET / HTTP/1.1", b"[1, 2]", b"", b"\xff", b"[" * 900, b"null"])
def test_an_invalid_message_ends_the_connection(line: bytes) -> None:
    with pair() as (plain, channel):
        plain.sendall(line + b"\n" + b'{"after": 1}\n')
        assert read_all(channel) == []
        assert "JSON object" in str(channel.fault)


def test_an_answer_is_found_after_other_messages_and_later_ones_are_kept() -> None:
    with pair() as (plain, channel):
        plain.sendall(b'{"beat": 1}\n{"port": 7}\n{"beat": 2}\n')
        assert channel.answer("port", SOON) == 7
        assert channel.receive() == {"beat": 2}
        assert channel.answer("port", 0.01) is None
        assert channel.open


def test_sending_to_a_closed_peer_fails_and_its_messages_are_still_read() -> None:
    with pair() as (plain, channel):
        plain.sendall(b'{"last": "message"}\n')
        plain.close()
        assert not channel.send(key="value")
        assert channel.receive() == {"last": "message"}
        assert channel.receive() is None


@given(host=st.ip_addresses(), port=st.integers(0, 65535))
def test_an_address_round_trips_through_its_text(host: Any, port: int) -> None:
    address = Address(str(host), port)
    assert str(address) == (f"[{host}]:{port}" if host.version == 6 else f"{host}:{port}")
    assert Address.parse(str(address)) == address


@given(host=st.from_regex(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*(%eth0)?", fullmatch=True), port=st.integers(0, 65535))
def test_a_host_may_have_any_name(host: str, port: int) -> None:
    assert Address.parse(f"{host}:{port}") == (host, port)


@pytest.mark.parametrize(
    "text", ["", "host", ":80", "host:", "host:http", "host:65536", "host:-1", "host:8 ", "::1:80", "[::1]", "[]:80"]
)
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=rf"^{re.escape(repr(text))} .*HOST:PORT"):
        Address.parse(text)


@given(text=st.text())
def test_any_text_is_a_valid_address_or_refused(text: str) -> None:
    with suppress(ValueError):
        address = Address.parse(text)
        assert Address.parse(str(address)) == address
