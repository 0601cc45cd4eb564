"""HTTP calls of the extender plug-in; made in the thread in which the engine runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.request import Request, urlopen

import msgspec

from unisono.errors import UnisonoError

_LONGEST = 10 << 20
"""Bytes of an answer at most, as in Volcano."""


class ExtenderError(UnisonoError):
    """An extender answered something that cannot be used."""


def call(url: str, body: Mapping[str, Any], timeout: float) -> Mapping[str, Any]:
    """POST ``body`` as JSON and decode the answer.

    Raises:
        OSError: no connection, no answer in time, or a status other than 2xx.
        ExtenderError: the address is none, or the answer is no JSON object or too long.

    """
    if not url.startswith(("http://", "https://")):
        raise ExtenderError(f"extender.urlPrefix must begin with http:// or https://, not {url!r}")
    request = Request(url, msgspec.json.encode(body), {"Content-Type": "application/json"})  # noqa: S310
    with urlopen(request, timeout=timeout) as response:  # noqa: S310
        data: bytes = response.read(_LONGEST + 1)
    if len(data) > _LONGEST:
        raise ExtenderError(f"the answer of {url} is longer than {_LONGEST} bytes")
    if not data:
        return {}
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise ExtenderError(f"the answer of {url} is no JSON object: {error}") from error
