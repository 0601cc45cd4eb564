"""HTTP calls of the extender plug-in; made in the thread in which the engine runs.

One cycle has so much time for all its calls together. An extender that cannot be reached several times in a row is not
asked for a while, longer each time; then one call tries it again.
"""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

import msgspec

from unisono.errors import UnisonoError

_LONGEST = 10 << 20
"""Bytes of an answer at most, as in Volcano."""


_FAILURES = 2
"""Calls in a row that get no answer, until the extender is not asked for a while."""
_LONGEST_PAUSE = 60.0


Call = Callable[[str, Mapping[str, Any], float], Mapping[str, Any]]


class ExtenderError(UnisonoError):
    """An extender answered something that cannot be used."""


class _Stream(io.RawIOBase):
    """What a socket receives until ``deadline`` (monotonic seconds)."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(_left(self._deadline))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(HTTPResponse):
    """An answer that has arrived until ``deadline`` or fails, however often a few more bytes come."""

    def __init__(self, sock: socket.socket, *given: Any, deadline: float, **named: Any) -> None:
        super().__init__(sock, *given, **named)
        self.fp.close()
        self.fp = io.BufferedReader(_Stream(sock, deadline))


class _Connection(HTTPConnection):
    """A connection whose time limit holds for the whole call; `http.client` has one for each operation."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._deadline = time.monotonic() + (self.timeout or 0.0)
        self.response_class = partial(_Response, deadline=self._deadline)  # type: ignore[assignment]

    def connect(self) -> None:
        super().connect()
        self.sock.settimeout(_left(self._deadline))


class _SecureConnection(HTTPSConnection, _Connection):
    """The same over TLS."""


class _Http(HTTPHandler):
    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_Connection, req)


class _Https(HTTPSHandler):
    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_SecureConnection, req)


def _left(deadline: float) -> float:
    """Seconds until then; raises `TimeoutError` when there are none."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("the answer did not arrive in time")
    return left


def call(url: str, body: Mapping[str, Any], timeout: float) -> Mapping[str, Any]:
    """POST ``body`` as JSON and decode the answer, all within ``timeout`` seconds.

    Raises:
        OSError: no connection, no answer in time, or a status other than 2xx; redirects are not followed.
        ExtenderError: the address is none, or the answer is no JSON object or too long.

    """
    if not url.lower().startswith(("http://", "https://")):
        raise ExtenderError(f"extender.urlPrefix must begin with http:// or https://, not {url!r}")
    request = Request(url, msgspec.json.encode(body), {"Content-Type": "application/json"})  # noqa: S310  # the scheme was checked
    with _opener().open(request, timeout=timeout) as response:
        data: bytes = response.read(_LONGEST + 1)
    if len(data) > _LONGEST:
        raise ExtenderError(f"the answer of {url} is longer than {_LONGEST} bytes")
    if not data:
        return {}
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise ExtenderError(f"the answer of {url} is no JSON object: {error}") from error


@cache
def _opener() -> OpenerDirector:
    """HTTP and HTTPS only, by the proxies of the environment; no redirects, which could lead to any scheme and host."""
    opener = OpenerDirector()
    for handler in (ProxyHandler(), _Http(), _Https(), HTTPDefaultErrorHandler(), HTTPErrorProcessor()):
        opener.add_handler(handler)
    return opener


class ExtenderUnavailable(UnisonoError):
    """An extender is not asked at present."""


@dataclass(slots=True)
class _Circuit:
    """One extender: calls in a row that got no answer, and until when it is not asked (monotonic seconds)."""

    failures: int = 0
    until: float = 0.0


class Extenders:
    """The extenders of one scheduler, from cycle to cycle.

    Args:
        monotonic: seconds that only grow.
        call: makes one call; see `call`.

    """

    def __init__(self, monotonic: Callable[[], float], call: Call = call) -> None:
        self._monotonic = monotonic
        self._call = call
        self._circuits: dict[str, _Circuit] = {}

    def begin(self, budget: float) -> Call:
        """The calls of one cycle, which may take ``budget`` seconds together."""
        left = budget

        def ask(url: str, body: Mapping[str, Any], timeout: float) -> Mapping[str, Any]:
            nonlocal left
            circuit = self._circuits.setdefault(urlsplit(url).netloc, _Circuit())
            started = self._monotonic()
            if started < circuit.until:
                raise ExtenderUnavailable(
                    f"{circuit.failures} calls in a row got no answer; asked again in {circuit.until - started:.1f} s"
                )
            if left <= 0:
                raise ExtenderUnavailable(f"its calls have taken the {budget:g} s that a cycle has for them")
            try:
                answer = self._call(url, body, min(timeout, left))
            except HTTPError:
                circuit.failures = 0  # an answer, if no good one
                raise
            except OSError:
                self._failed(circuit)
                raise
            finally:
                left -= self._monotonic() - started
            circuit.failures = 0
            return answer

        return ask

    def _failed(self, circuit: _Circuit) -> None:
        circuit.failures += 1
        if circuit.failures >= _FAILURES:
            pause = min(float(1 << min(circuit.failures - _FAILURES, 10)), _LONGEST_PAUSE)
            circuit.until = self._monotonic() + pause
