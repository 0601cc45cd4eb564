"""Adds to "not found" what the user probably meant: the object whose name is near, or the queues that there are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from unisono.api.near_names import nearest

if TYPE_CHECKING:
    from unisono.api.kind import Kind
    from unisono.errors import ApiError
    from unisono.kube.http import HttpClient

# As Kubernetes words it, alone or within another message: jobs.batch.volcano.sh "train" not found.
_NOT_FOUND = re.compile(r'([a-z]+)((?:\.[a-z0-9-]+)*) "([^"]{1,253})" not found')
_MOST_LOOKED_AT = 500
_MOST_QUEUES = 6


async def tell_near_object(client: HttpClient, error: ApiError, namespace: str) -> None:
    """Let the message of a refusal name the object that was probably meant; nothing changes where none is near.

    Args:
        client: the server that refused.
        error: its refusal, which gets another ``message``.
        namespace: where the object was looked for.

    """
    found = _NOT_FOUND.search(error.message)
    kind = found and _kind(found[1], found[2].removeprefix("."))
    if not found or kind is None:
        return
    path = kind.path(namespace if kind.namespaced else None)
    status, _, body = await client.request("GET", path, params={"limit": str(_MOST_LOOKED_AT)})
    if status == 200:
        error.message += hint(kind, found[3], _names(body))
        error.args = (error.message,)


def hint(kind: Kind[Any], name: str, known: Iterable[str]) -> str:
    """``; did you mean job/train?``, or for queues the names of all where they are few; empty where nothing helps.

    Args:
        kind: of the object that does not exist.
        name: as the user wrote it.
        known: names of those that exist.

    """
    from unisono.api.kinds import QUEUES

    names = sorted(known)
    near = nearest(name, names)
    if near:
        return f"; did you mean {kind.kind.lower()}/{near}?"
    if kind is QUEUES and names:
        more = f" and {len(names) - _MOST_QUEUES} more" if len(names) > _MOST_QUEUES else ""
        return f"; queues are: {', '.join(names[:_MOST_QUEUES])}{more}"
    return ""


def _kind(word: str, group: str) -> Kind[Any] | None:
    from unisono.api.kinds import ALL_KINDS

    for kind in ALL_KINDS:
        if kind.group == group and word in (kind.plural, kind.kind.lower()):
            return kind
    return None


def _names(body: bytes) -> list[str]:
    import msgspec

    try:
        items = msgspec.json.decode(body)["items"]
        return [str(item["metadata"]["name"]) for item in items]
    except (msgspec.DecodeError, KeyError, TypeError):
        return []
