"""What a hub knows of a job's members: where it is, or for each member why it is not there, and what they warn of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from unisono.api.annotations import CLUSTER, DIVISION, MEMBER_REASONS
from unisono.api.base import Object
from unisono.api.kinds import EVENTS
from unisono.api.promised_machines import machines_of_replicas, promised_machines
from unisono.errors import ApiError
from unisono.jobkinds.registry import has_ended

if TYPE_CHECKING:
    from unisono.kube.client import Client

_SHOWN: Final = 3


@dataclass(slots=True)
class FleetNotes:
    """Of one object.

    Attributes:
        cluster: the member that has it; empty while it waits, or where this is no hub.
        machines: those of the member that it waits for; empty where it waits for none.
        reasons: why it is not in each member, by member.
        division: replicas by member.
        warnings: what its members warn of, the newest first.
    """

    cluster: str = ""
    machines: str = ""
    reasons: dict[str, str] = field(default_factory=dict)
    division: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """For people."""
        notes = [f"in cluster {self.cluster}"] if self.cluster else []
        notes += [f"waits for {self.machines}"] if self.machines else []
        if self.division:
            notes.append("divided: " + ", ".join(f"{count} in {name}" for name, count in sorted(self.division.items())))
        if not self.cluster:
            notes += [f"{name}: {why}" for name, why in sorted(self.reasons.items())]
        return [*notes, *self.warnings]

    def json(self) -> dict[str, Any]:
        """For programs."""
        return msgspec.to_builtins(self)  # type: ignore[no-any-return]


async def fleet_notes(client: Client, owner: Object, groups: Iterable[Object]) -> FleetNotes:
    """What the hub has written about an object; empty on other control planes."""
    marks = owner.metadata.annotations or {}
    notes = FleetNotes(marks.get(CLUSTER, ""))
    if notes.cluster and not has_ended(owner) and (machines := promised_machines(owner)) is not None:
        notes.machines = machines.text(notes.cluster)
    for group in groups:
        notes.reasons |= _texts((group.metadata.annotations or {}).get(MEMBER_REASONS), str)
    notes.division = _texts(marks.get(DIVISION), int)
    if notes.division and not has_ended(owner):
        waits = sorted(machines_of_replicas(owner).items())
        notes.machines = "; ".join(each.text(name) for name, each in waits)
    if notes.cluster or notes.division:
        notes.warnings = await _warnings(client, owner, {notes.cluster, *notes.division} - {""})
    return notes


async def _warnings(client: Client, owner: Object, clusters: Iterable[str]) -> list[str]:
    meta = owner.metadata
    try:
        events = (await client.list(EVENTS, meta.namespace, field_selector=f"involvedObject.uid={meta.uid}")).items
    except ApiError:
        return []
    starts = tuple(f"{name}: " for name in clusters)
    own = [each for each in events if each.type == "Warning" and (each.message or "").startswith(starts)]
    own.sort(key=lambda each: each.last_timestamp or "", reverse=True)
    return list(dict.fromkeys(f"{each.message} ({each.reason})" for each in own))[:_SHOWN]


def _texts(text: str | None, value: type) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, value])  # type: ignore[valid-type]
    except (msgspec.MsgspecError, RecursionError):
        return {}
