"""Where the parts of a HyperJob are: one record on the HyperJob, written in one piece before any member is (pure).

A part is one of the HyperJob's jobs. The record counts dispatches and releases; a part that was sent carries the number
of its dispatch, as its copy does, and the highest one wins. Parts that were sent after the record was opened last are
held back: their copies have no pods.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from unisono.api.annotations import GANG
from unisono.api.base import Object
from unisono.fleet.jobs.copies import Placement

_MOST_NUMBER = 10**9


class _Sent(msgspec.Struct, frozen=True, omit_defaults=True):
    """On the wire: a part in its member."""

    cluster: str
    number: int
    uid: str


class _Wire(msgspec.Struct, frozen=True, omit_defaults=True):
    number: int = 0
    opened: int = 0
    started: int = 0
    since: float = 0.0
    parts: dict[str, _Sent] = {}


@dataclass(frozen=True, slots=True)
class PlacedPart:
    """Where a part is.

    Attributes:
        cluster: the member.
        generation: of its dispatch.
        uid: of the job that is the part; another job of its name is another part.

    """

    cluster: str
    generation: int
    uid: str


@dataclass(frozen=True, slots=True)
class GangRecord:
    """Where all parts are.

    Attributes:
        number: dispatches and releases so far.
        opened: parts of dispatches up to this one may start; later ones are held back.
        started: parts of dispatches up to this one have been seen running.
        since: seconds since 1970 of the latest dispatch, opening or release.
        parts: parts by name of their job; those that wait are absent.

    """

    number: int = 0
    opened: int = 0
    started: int = 0
    since: float = 0.0
    parts: Mapping[str, PlacedPart] = field(default_factory=dict)

    def placement(self, part: str, uid: str) -> Placement:
        """Where a part belongs; ``uid`` is its job's."""
        place = self.parts.get(part)
        if place is None or place.uid != uid:
            return Placement("", self.number)
        return Placement(place.cluster, place.generation)

    def is_held(self, part: str) -> bool:
        """Whether the part is reserved and not open yet."""
        place = self.parts.get(part)
        return place is not None and place.generation > self.opened

    def sent(self, places: Mapping[str, tuple[str, str]], now: float) -> GangRecord:
        """The next dispatch: part to member and uid of its job."""
        number = self.number + 1
        parts = {name: PlacedPart(cluster, number, uid) for name, (cluster, uid) in places.items()}
        return replace(self, number=number, since=now, parts={**self.parts, **parts})

    def open(self, now: float) -> GangRecord:
        """All that was sent may start."""
        return replace(self, opened=self.number, since=now)

    def start(self) -> GangRecord:
        """All that was opened runs."""
        return replace(self, started=self.opened)

    def without(self, parts: Collection[str], now: float, *, beyond: int = 0) -> GangRecord:
        """These parts wait again; ``beyond``: the highest number that was seen anywhere."""
        left = {name: place for name, place in self.parts.items() if name not in parts}
        return replace(self, number=max(self.number, beyond) + 1, since=now, parts=left)

    def patch(self, version: str | None) -> dict[str, Any]:
        """The merge patch that writes it down, if the HyperJob is still at ``version``."""
        parts = {name: _Sent(each.cluster, each.generation, each.uid) for name, each in self.parts.items()}
        wire = _Wire(self.number, self.opened, self.started, self.since, parts)
        return {"metadata": {"resourceVersion": version, "annotations": {GANG: msgspec.json.encode(wire).decode()}}}


def record_of(hyper_job: Object) -> GangRecord:
    """What is written on a HyperJob; an empty record where that cannot be read."""
    text = (hyper_job.metadata.annotations or {}).get(GANG)
    if not text:
        return GangRecord()
    try:
        wire = msgspec.json.decode(text, type=_Wire)
    except (msgspec.DecodeError, RecursionError):
        return GangRecord()
    numbers = [wire.number, wire.opened, wire.started, *(each.number for each in wire.parts.values())]
    if not all(0 <= number <= _MOST_NUMBER for number in numbers):
        return GangRecord()
    parts = {name: PlacedPart(each.cluster, each.number, each.uid) for name, each in wire.parts.items()}
    return GangRecord(wire.number, wire.opened, wire.started, wire.since, parts)
