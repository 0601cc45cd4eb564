"""HTTP calls of the extender plug-in; made in the thread in which the engine runs.

One cycle has so much time for all its calls together. An extender that cannot be reached several times in a row is not
asked for a while, longer each time; then one call tries it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import msgspec

from unisono.errors import UnisonoError
from unisono.kube.pace import Circuits

_LONGEST = 10 << 20
"""Bytes of an answer at most, as in Volcano."""

_HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "identity"}

_FAILURES = 2
"""Calls in a row that get no answer, until the extender is not asked for a while."""
_LONGEST_PAUSE = 60.0

Call = Callable[[str, Mapping[str, Any], float], Mapping[str, Any]]


class ExtenderError(UnisonoError):
    """An extender answered something that cannot be used."""


def call(url: str, body: Mapping[str, Any], timeout: float) -> Mapping[str, Any]:
    """POST ``body`` as JSON and decode the answer, all within ``timeout`` seconds, however slowly bytes arrive.

    Proxies are those of the environment. Redirects are not followed: they could lead to any scheme and host.

    Raises:
        OSError: no connection, or no answer in time.
        ExtenderError: the address is none, the status is not 2xx, or the answer is no JSON object or too long.
    """
    if not url.lower().startswith(("http://", "https://")):
        raise ExtenderError(f"extender.urlPrefix must begin with http:// or https://, not {url!r}")
    # Closed by hand: `asyncio.run` would wait for a name server that does not answer.
    loop = asyncio.new_event_loop()
    try:
        data = loop.run_until_complete(_post(url, msgspec.json.encode(body), timeout))
    finally:
        loop.close()
    if not data:
        return {}
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ExtenderError(f"the answer of {url} is no JSON object: {error}") from error


async def _post(url: str, body: bytes, timeout: float) -> bytes:
    unlimited = aiohttp.ClientTimeout()  # each of its limits would be for a part of the call
    try:
        async with (
            asyncio.timeout(timeout),
            aiohttp.ClientSession(timeout=unlimited, auto_decompress=False) as session,
            session.post(url, data=body, headers=_HEADERS, proxy=_proxy(url), allow_redirects=False) as response,
        ):
            if not response.ok or response.status >= 300:
                raise ExtenderError(f"{url} answers status {response.status}")
            data = bytearray()
            async for chunk in response.content.iter_any():
                data += chunk
                if len(data) > _LONGEST:
                    raise ExtenderError(f"the answer of {url} is longer than {_LONGEST} bytes")
            return bytes(data)
    except TimeoutError:
        raise TimeoutError(f"the answer of {url} did not arrive within {timeout:g} s") from None
    except aiohttp.InvalidURL as error:
        raise ExtenderError(f"{url} is not an address") from error
    except aiohttp.ClientError as error:
        raise ConnectionError(f"{url} cannot be reached: {error or type(error).__name__}") from error


def _proxy(url: str) -> str | None:
    """The proxy that the environment names for the address."""
    parts = urlsplit(url)
    return None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)


class ExtenderUnavailable(UnisonoError):
    """An extender is not asked at present."""


class Extenders:
    """The extenders of one scheduler, from cycle to cycle.

    Args:
        monotonic: seconds that only grow.
        call: makes one call; see `call`.
    """

    def __init__(self, monotonic: Callable[[], float], call: Call = call) -> None:
        self._monotonic = monotonic
        self._call = call
        self._circuits = Circuits(monotonic, failures=_FAILURES, longest=_LONGEST_PAUSE)

    def begin(self, budget: float) -> Call:
        """The calls of one cycle, which may take ``budget`` seconds together."""
        left = budget

        def ask(url: str, body: Mapping[str, Any], timeout: float) -> Mapping[str, Any]:
            nonlocal left
            address = urlsplit(url).netloc
            if left <= 0 and not self._circuits.resting(address):
                raise ExtenderUnavailable(f"its calls have taken the {budget:g} s that a cycle has for them")
            if why := self._circuits.rest(address):
                raise ExtenderUnavailable(why)
            started = self._monotonic()
            try:
                answer = self._call(url, body, min(timeout, left))
            except ExtenderError:
                self._circuits.answered(address)  # if not well
                raise
            except OSError:
                self._circuits.failed(address)
                raise
            finally:
                left -= self._monotonic() - started
            self._circuits.answered(address)
            return answer

        return ask
