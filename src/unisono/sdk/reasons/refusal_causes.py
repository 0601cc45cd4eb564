"""What is behind a refusal to create pods: the quota to raise and by how much, or the name that was meant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from unisono.api.core import ConfigMap, Secret
from unisono.api.keys import CLOSED_BY_PARENT
from unisono.api.kinds import (
    CONFIG_MAPS,
    LIMIT_RANGES,
    QUEUES,
    RESOURCE_CLAIM_TEMPLATES,
    SECRETS,
)
from unisono.api.messages import closed_queue_in, counted
from unisono.api.names import did_you_mean, nearest
from unisono.api.queues import Place, to_be_opened
from unisono.api.resources import amounts_text, to_units
from unisono.api.verdict import Cause, Verdict
from unisono.errors import ApiError, UnisonoError
from unisono.sdk import foreign
from unisono.sdk.fixes.references import KINDS
from unisono.sdk.foreign import Missing, missing_key
from unisono.sdk.reasons.refusals import Refusal
from unisono.sdk.state.waiting import Misnamed

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient
    from unisono.sdk.state.bound_pods import WaitingContainer

_MOST_SHOWN = 5
"""Keys of a ConfigMap or Secret that are listed where none is like the missing one."""
_COUNTED = ("count/jobs.batch",)
"""Entries of quotas that count what other objects make, and not pods."""
_MOST_MESSAGES = 4


async def with_names(
    client: HttpClient, refusal: Refusal, namespace: str | None, unlimited: Sequence[str] = ()
) -> Refusal:
    """The refusal, with the account, class or queue that exists and was probably meant.

    ``unlimited``: devices that it requests without a limit.
    """
    message = await with_meant(client, refusal.message, namespace)
    if foreign.UNLIMITED in message and unlimited:
        message += f" (requests {', '.join(unlimited)} without a limit)"
    above = foreign.ABOVE_LIMIT.search(message[: foreign.LONGEST])
    if above is not None:
        message += await _limit_range(client, above[1], above[2], namespace)
    return replace(refusal, message=message)


async def _limit_range(client: HttpClient, name: str, amount: str, namespace: str | None) -> str:
    """`` (LimitRange small sets this limit)`` where one of the namespace has this limit for containers."""
    try:
        ranges = (await client.list(LIMIT_RANGES, namespace)).items
        limit = to_units(name, amount)
    except (ApiError, UnisonoError):
        return ""
    for one in ranges:
        for item in one.spec.limits or ():
            given = (getattr(item, "default", None) or {}).get(name, (item.max or {}).get(name))
            if item.type == "Container" and given is not None and to_units(name, given) == limit:
                return f" (LimitRange {one.metadata.name} sets this limit)"
    return ""


async def with_meant(client: HttpClient, message: str, namespace: str | None) -> str:
    """A message of the server, with the name that exists and was probably meant."""
    return (await meant_in(client, message, namespace))[0]


async def meant_in(client: HttpClient, message: str, namespace: str | None) -> tuple[str, Misnamed | None]:
    """A message as of `with_meant`, and the name in it that nothing has.

    A message on a closed queue says as well with which one above it that was closed. Users who may not
    list these kinds get the message as it is.
    """
    if (missing := foreign.missing_name(message)) is not None and missing.kind in KINDS:
        kind = KINDS[missing.kind]
        try:
            listing = await client.list(kind, namespace if kind.namespaced else None)
        except ApiError:
            return message, Misnamed(kind.kind, missing.name)
        names = sorted(each.metadata.name for each in listing.items)
        text = f"{message[: missing.end]}{did_you_mean(missing.name, names)}{message[missing.end :]}"
        return text, Misnamed(kind.kind, missing.name, nearest(missing.name, names))
    if closed := closed_queue_in(message[: foreign.LONGEST]):
        above, *by_hand = await closed_queues(client, closed)
        how = f"queue {above} above it is closed as well" if by_hand else f"it was closed with queue {above}"
        return message + (f"; {how}" if above != closed else ""), None
    return message, None


async def closed_queues(client: HttpClient, name: str) -> tuple[str, ...]:
    """The queues to be opened for a closed one, the uppermost first; itself alone where queues may not be listed."""
    try:
        queues = (await client.list(QUEUES)).items
    except ApiError:
        return (name,)
    places = {
        one.metadata.name: Place(
            one.spec.parent or "",
            one.status.state in ("Closed", "Closing"),
            (one.metadata.annotations or {}).get(CLOSED_BY_PARENT) == "true",
        )
        for one in queues
    }
    return to_be_opened(name, places.get)


async def with_meant_names(
    client: HttpClient, containers: Sequence[WaitingContainer], namespace: str
) -> list[WaitingContainer]:
    """The same; those for which their node misses a ConfigMap, Secret or key of one with what was probably meant."""
    corrections = {each.message: each.message for each in containers if "not found" in each.message}
    for message in list(corrections)[:_MOST_MESSAGES]:
        corrections[message] = await with_meant(client, message, namespace)
    lacking = [message for message in dict.fromkeys(each.message for each in containers) if missing_key(message)]
    for message in lacking[:_MOST_MESSAGES]:
        corrections[message] = await with_meant_key(client, message, namespace)
    return [replace(each, message=corrections.get(each.message, each.message)) for each in containers]


async def with_template(client: HttpClient, verdict: Verdict) -> Verdict:
    """A verdict on a claim that was not made yet: whether its template exists, which no scheduler looks at."""
    match = foreign.UNMADE_CLAIM.search(verdict.message[: foreign.LONGEST])
    if match is None:
        return verdict
    try:
        listing = await client.list(RESOURCE_CLAIM_TEMPLATES, verdict.job.partition("/")[0])
    except ApiError:
        return verdict
    names = sorted(each.metadata.name for each in listing.items)
    if match[1] in names:
        return verdict
    hint = f", which does not exist{did_you_mean(match[1], names)}"
    message = f"{verdict.message[: match.end()]}{hint}{verdict.message[match.end() :]}"
    return msgspec.structs.replace(verdict, message=message)


def quota_verdict(refusal: Refusal, job: str, missing: int, what: str = "pod") -> Verdict | None:
    """A verdict with the quota to raise, where a quota is why ``missing`` equal pods are refused; else None.

    Args:
        refusal: of one of the pods, in the words of Kubernetes' API server.
        job: ``namespace/name`` of what waits.
        missing: pods that are still to be created.
        what: other objects than pods.
    """
    match = foreign.QUOTA.search(refusal.message[: foreign.LONGEST])
    if match is None or missing < 1:
        return None
    quota = match[1]
    try:
        asked, used, hard = (_amounts(match[at]) for at in (2, 3, 4))
        need = {name: amount * missing for name, amount in asked.items()}  # of other objects at most one for each pod
        short = [name for name in need if used[name] + need[name] > hard[name]]
    except (KeyError, UnisonoError, ValueError):
        return None
    if not short:
        return None
    more = {name: used[name] + need[name] - hard[name] for name in short}
    kind = foreign.OVER_QUOTA.search(refusal.message[: foreign.LONGEST])
    pods = f"{counted(missing, what)} cannot be created"
    if kind is not None and kind[1] != "pods" and what == "pod":
        pods, need = f"its {kind[1]} cannot be created", asked
    asked_for, taken, most = (amounts_text({name: each[name] for name in short}) for each in (need, used, hard))
    amounts = f"asked for: {asked_for}; used: {taken}; hard: {most}"
    by = amounts_text(more, "up", by=" by")
    return Verdict(
        job=job,
        cause=Cause.QUOTA,
        message=f"{pods}: resource quota {quota} has no room for {'it' if missing == 1 else 'them'} ({amounts})",
        need={name: need[name] for name in short},
        have={name: max(hard[name] - used[name], 0) for name in short},
        suggestion=f"raise the resource quota {quota}: {by} (whether the cluster has room then was not tried)",
        change={"kind": "RaiseQuota", "quota": quota, "amounts": more, "tried": False},
    )


def refuses_parts(refusal: Refusal) -> bool:
    """Whether a quota on the number of objects refuses them, not one on pods."""
    match = foreign.QUOTA.search(refusal.message[: foreign.LONGEST])
    return match is not None and any(each.startswith(_COUNTED) for each in match[2].split(","))


def _amounts(text: str) -> dict[str, int]:
    """``a=1,b=2`` in engine units."""
    pairs = (part.partition("=") for part in text.split(",") if part)
    return {name: to_units(name, value) for name, _, value in pairs}


async def with_meant_key(client: HttpClient, message: str, namespace: str) -> str:
    """The message with the key that was probably meant, else with the keys that there are, where they are few.

    Values are not looked at. Users who may not read the object get the message as it is.
    """
    lacks = missing_key(message)
    if lacks is None:
        return message
    try:
        keys = await _keys(client, lacks, namespace)
    except ApiError:
        return message
    near = did_you_mean(lacks.key, keys)
    if not near and 0 < len(keys) <= _MOST_SHOWN:
        near = f" (it has {', '.join(keys)})"
    return f"{message[: lacks.end]}{near}{message[lacks.end :]}"


async def _keys(client: HttpClient, lacks: Missing, namespace: str) -> list[str]:
    if lacks.kind == "Secret":
        secret: Secret = await client.get(SECRETS, lacks.name, namespace)
        return sorted(secret.data or ())
    config_map: ConfigMap = await client.get(CONFIG_MAPS, lacks.name, namespace)
    return sorted({**(config_map.data or {}), **(config_map.binary_data or {})})
