"""The HTTP calls of the extender plug-in, against a real server."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from support.build import cluster, config, gang, nodes, schedule
from unisono.engine.plugins.extender import extender_with
from unisono.engine.verdict import Cause
from unisono.scheduler.extender import ExtenderError, Extenders, ExtenderUnavailable, call

TRICKLES = {
    "/slow-body": (b"HTTP/1.0 200 OK\r\n\r\n", b" " * 100 + b"{}"),
    "/slow-head": (b"HTTP/1.0 200 OK\r\nX: ", b"x" * 100 + b"\r\n\r\n{}"),
}
"""What is sent at once, and what byte by byte, by path."""


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path in TRICKLES:
            self._trickle(*TRICKLES[self.path])
            return
        status, answer = {
            "http://extender.invalid/x": (404, ""),
            "/echo": (200, json.dumps({"got": json.loads(body), "type": self.headers["Content-Type"]})),
            "/empty": (200, ""),
            "/list": (200, "[1]"),
            "/broken": (500, "{}"),
            "/deep": (200, '{"a":' * 20_000),
            "/long": (200, " " * ((10 << 20) + 1)),
            "/moved": (302, ""),
        }[self.path]
        self.send_response(status)
        if self.path == "/moved":
            self.send_header("Location", "/echo")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer.encode())

    def do_GET(self) -> None:
        """What a client would ask for that follows a redirect."""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"followed": true}')

    def _trickle(self, at_once: bytes, bytewise: bytes) -> None:
        self.wfile.write(at_once)
        pause = threading.Event()
        for byte in bytewise:
            try:
                self.wfile.write(bytes([byte]))
            except OSError:
                return
            pause.wait(0.01)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def prefix() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_bodies_go_both_ways(prefix: str) -> None:
    assert call(f"{prefix}/echo", {"a": 1}, 5.0) == {"got": {"a": 1}, "type": "application/json"}
    assert call(f"{prefix}/empty", {}, 5.0) == {}


def test_what_goes_wrong(prefix: str) -> None:
    with pytest.raises(ExtenderError, match="no JSON object"):
        call(f"{prefix}/list", {}, 5.0)
    with pytest.raises(ExtenderError, match="answers status 500"):
        call(f"{prefix}/broken", {}, 5.0).get("x")
    with pytest.raises(ExtenderError, match="no JSON object"):
        call(f"{prefix}/deep", {}, 5.0)
    with pytest.raises(ExtenderError, match="longer than"):
        call(f"{prefix}/long", {}, 60.0)
    with pytest.raises(ConnectionError, match="cannot be reached"):
        call("http://127.0.0.1:1/x", {}, 5.0)
    with pytest.raises(ExtenderError, match="is not an address"):
        call("http://", {}, 5.0)
    with pytest.raises(ExtenderError, match="must begin with http"):
        call("file:///etc/hostname", {}, 5.0)
    with pytest.raises(ExtenderError, match="answers status 302"):
        call(f"{prefix}/moved", {}, 5.0).get("x")


@pytest.mark.parametrize("path", TRICKLES)
def test_an_answer_that_trickles_in_is_given_up(prefix: str, path: str) -> None:
    with pytest.raises(TimeoutError):
        call(prefix + path, {}, 0.3)


def test_a_name_server_that_does_not_answer_does_not_hold_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()

    def hang(*_: Any, **__: Any) -> list[Any]:
        answers.wait(60.0)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    try:
        with pytest.raises(TimeoutError):
            call("http://extender.invalid/x", {}, 0.1)
        assert not answers.is_set()
    finally:
        answers.set()


def test_proxies_are_those_of_the_environment(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", prefix)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert call(f"{prefix}/echo", {}, 5.0)["got"] == {}
    with pytest.raises(ExtenderError, match="answers status 404"):
        call("http://extender.invalid/x", {}, 5.0)


class Remote:
    """An extender that does not answer before the time is up, while it ``hangs``."""

    def __init__(self) -> None:
        self.now, self.hangs, self.asked = 0.0, True, 0

    def monotonic(self) -> float:
        return self.now

    def __call__(self, url: str, body: Mapping[str, Any], timeout: float) -> Mapping[str, Any]:
        self.asked += 1
        if self.hangs:
            self.now += timeout
            raise TimeoutError("timed out")
        return {}


def test_an_extender_that_does_not_answer_is_asked_less_and_less_often() -> None:
    remote = Remote()
    extenders = Extenders(remote.monotonic, remote)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            extenders.begin(3.0)("http://there/x", {}, 1.0)
    with pytest.raises(ExtenderUnavailable, match=r"2 calls in a row got no answer; asked again in 1\.0 s"):
        extenders.begin(3.0)("http://there/x", {}, 1.0)
    assert remote.asked == 2
    for pause in (1.0, 2.0, 4.0, 8.0):
        remote.now += pause
        with pytest.raises(TimeoutError):
            extenders.begin(3.0)("http://there/x", {}, 1.0)
    remote.now += 16.0
    remote.hangs = False
    assert extenders.begin(3.0)("http://there/x", {}, 1.0) == {}
    assert extenders.begin(3.0)("http://there/x", {}, 1.0) == {}


def test_the_calls_of_a_cycle_have_so_much_time_together() -> None:
    remote = Remote()
    ask = Extenders(remote.monotonic, remote).begin(2.5)
    with pytest.raises(TimeoutError):
        ask("http://one/x", {}, 2.0)
    with pytest.raises(TimeoutError):
        ask("http://two/x", {}, 2.0)
    assert remote.now == 2.5
    with pytest.raises(ExtenderUnavailable, match=r"taken the 2\.5 s that a cycle has"):
        ask("http://three/x", {}, 2.0)


def test_an_answer_that_is_no_good_is_an_answer() -> None:
    def refuse(url: str, body: Mapping[str, Any], timeout: float) -> Mapping[str, Any]:
        raise ExtenderError(f"{url} answers status 500")

    extenders = Extenders(lambda: 0.0, refuse)
    for _ in range(5):
        with pytest.raises(ExtenderError, match="500"):
            extenders.begin(3.0)("http://there/x", {}, 1.0)


@pytest.mark.parametrize("ignorable", [False, True])
def test_a_hanging_extender_costs_a_cycle_a_bounded_time(ignorable: bool) -> None:
    remote = Remote()
    verbs = {f"extender.{verb}Verb": verb for verb in ("predicate", "prioritize", "jobReady", "queueOverused")}
    given = {"extender.urlPrefix": "http://there", "extender.ignorable": ignorable, **verbs}
    settings = config(("gang",), ("predicates", "extender"), arguments={"extender": given})
    state = cluster(nodes(50), [gang(f"j{at}", 1, created=at) for at in range(20)])
    extenders = Extenders(remote.monotonic, remote)
    plugin = extender_with(remote, extenders.begin)
    for _ in range(3):
        before = remote.now
        decisions = schedule(state, settings, plugins={"extender": plugin})
        assert remote.now - before <= 3.0
        assert len(decisions.binds) == (20 if ignorable else 0)
        if not ignorable:
            assert {verdict.cause for verdict in decisions.verdicts.values()} == {Cause.EXTENDER}
            assert all("extender" in verdict.message for verdict in decisions.verdicts.values())
