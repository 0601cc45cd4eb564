"""Messages of nodes that miss a key of a ConfigMap or Secret, and the key that was probably meant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unisono.api.core import ConfigMap, Secret
from unisono.api.kinds import CONFIG_MAPS, SECRETS
from unisono.api.names import did_you_mean
from unisono.errors import ApiError
from unisono.sdk import foreign

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient

_KINDS = {"configmap": "ConfigMap", "secret": "Secret"}  # nosec B105 # the name of a kind
_MOST_SHOWN = 5


@dataclass(frozen=True, slots=True)
class MissingKey:
    """A key that a pod asks for and its ConfigMap or Secret does not have.

    Attributes:
        kind: ``ConfigMap`` or ``Secret``.
        name: of the object.
        key: that it lacks.
        end: where the message has said so.
        meant: the key that was probably meant, where the message says it.

    """

    kind: str
    name: str
    key: str
    end: int
    meant: str = ""


def missing_key(message: str) -> MissingKey | None:
    """What a message of a node misses, None where it speaks of something else."""
    text = message[: foreign.LONGEST]
    if found := foreign.KEY_OF_VARIABLE.search(text):
        key, kind, name = found.groups()
    elif found := foreign.KEY_OF_FILE.search(text):
        word, name, key = found.groups()
        kind = _KINDS[word]
    else:
        return None
    near = foreign.MEANT_NEXT.match(text, found.end())
    return MissingKey(kind, name, key, found.end(), near[1] if near else "")


async def with_meant_key(client: HttpClient, message: str, namespace: str) -> str:
    """The message with the key that was probably meant, else with the keys that there are, where they are few.

    Values are not looked at. Users who may not read the object get the message as it is.
    """
    lacks = missing_key(message)
    if lacks is None:
        return message
    try:
        known = await _keys(client, lacks, namespace)
    except ApiError:
        return message
    near = did_you_mean(lacks.key, known)
    if not near and 0 < len(known) <= _MOST_SHOWN:
        near = f" (it has {', '.join(known)})"
    return f"{message[: lacks.end]}{near}{message[lacks.end :]}"


async def _keys(client: HttpClient, lacks: MissingKey, namespace: str) -> list[str]:
    if lacks.kind == "Secret":
        secret: Secret = await client.get(SECRETS, lacks.name, namespace)
        return sorted(secret.data or ())
    found: ConfigMap = await client.get(CONFIG_MAPS, lacks.name, namespace)
    return sorted({**(found.data or {}), **(found.binary_data or {})})
