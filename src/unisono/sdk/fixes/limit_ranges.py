"""What LimitRanges give to containers that state nothing, and smaller minimums for containers that controllers add."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from unisono.api.kinds import LIMIT_RANGES
from unisono.api.resources import to_units
from unisono.errors import ApiError, UnisonoError
from unisono.sdk import foreign
from unisono.sdk.fixes.fix import Fix, Operation

if TYPE_CHECKING:
    from unisono.api.core import LimitRange
    from unisono.kube.http import HttpClient


async def default_requests(client: HttpClient, namespace: str) -> dict[str, Any]:
    """What a container requests that states nothing, by resource; empty where users may not see that."""
    defaults: dict[str, Any] = {}
    for one in await _listed(client, namespace):
        for limit in one.spec.limits or ():
            if limit.type == "Container":
                defaults |= {**(limit.max or {}), **(limit.default or {}), **(limit.default_request or {})}
    return defaults


async def lowered_minimum(client: HttpClient, namespace: str, message: str) -> list[Fix]:
    """Let a LimitRange take what is below its minimum: a container that a controller adds has no field of the job."""
    matches = {one[1]: one for one in foreign.REQUESTED.finditer(message[: foreign.LONGEST])}
    if not matches:
        return []
    return [
        fix
        for one in await _listed(client, namespace)
        for at, limit in enumerate(one.spec.limits or ())
        for name, told in matches.items()
        if limit.type == told[2]
        for fix in _lowered(one, at, name, (limit.min or {}).get(name), told[4])
    ]


def _lowered(one: LimitRange, at: int, name: str, least: Any, amount: str) -> Iterator[Fix]:
    try:
        if least is None or to_units(name, least) <= to_units(name, amount):
            return
    except UnisonoError:
        return
    meta, path = one.metadata, name.replace("~", "~0").replace("/", "~1")
    body = [{"op": "replace", "path": f"/spec/limits/{at}/min/{path}", "value": amount}]
    change = {"kind": "LowerMinimum", "limitRange": meta.name, "amounts": {name: amount}, "tried": False}
    text = f"lower the minimum {name} of LimitRange {meta.name} to {amount}"
    yield Fix(text, False, change, (Operation("patch", LIMIT_RANGES, meta.name, meta.namespace or "", body, "json"),))


async def _listed(client: HttpClient, namespace: str) -> list[LimitRange]:
    try:
        return list((await client.list(LIMIT_RANGES, namespace)).items)
    except ApiError:
        return []
