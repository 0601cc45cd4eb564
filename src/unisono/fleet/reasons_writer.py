"""Writes to the PodGroups of a hub why each member cannot take them, some at a time and not too often."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

import msgspec

from unisono.api.annotations import MEMBER_REASONS
from unisono.api.groups.scheduling import PodGroup
from unisono.api.kinds import POD_GROUPS
from unisono.api.selecting import controller_of
from unisono.cluster.status import READY_STATES, count
from unisono.fleet.hub_state import HubState
from unisono.fleet.hyper_jobs.controller import WaitingParts
from unisono.fleet.reasons import by_member, by_part
from unisono.kube.client import Client
from unisono.kube.clock import Clock
from unisono.scheduler.metrics import Metrics
from unisono.scheduler.outbox import Outbox

_MOST = 50
"""Gangs that are looked at after one cycle."""
_INTERVAL_SECONDS = 10.0
_MOST_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class _Wish:
    text: str | None


Parts = Callable[[PodGroup], WaitingParts | None]


class ReasonsWriter:
    """Keeps the annotation of gangs that wait, and takes it away when they have a place."""

    def __init__(
        self,
        client: Client,
        state: HubState,
        metrics: Metrics,
        clock: Clock,
        parts: Parts,
        together: Callable[[str], Mapping[str, str]] = lambda _uid: {},
        coming: Callable[[str], str] = lambda _cluster: "",
    ) -> None:
        """Make one.

        ``parts`` answers the waiting parts of a PodGroup that stands for a HyperJob, None for all others; ``together``
        why the job of a uid is not divided over members, by their names; ``coming`` which machines may come in a
        member.
        """
        self._client, self._state, self._parts, self._together = client, state, parts, together
        self._coming = coming
        self._outbox: Outbox[_Wish] = Outbox(
            "member reasons", self._write, clock, metrics, interval=_INTERVAL_SECONDS, pace=client.pace, workers=2
        )
        self._turn = 0

    async def run(self) -> None:
        """Write until cancelled."""
        await self._outbox.run()

    def take(self, waiting: list[str]) -> None:
        """These gangs wait after a cycle; many of them take turns."""
        groups = self._state.feed.groups
        for key in self._next(waiting):
            if key in groups:
                self._wish(key, self._text(key))
        still = set(waiting)
        for key, group in groups.items():
            if key not in still and MEMBER_REASONS in (group.metadata.annotations or {}):
                self._wish(key, None)

    def _next(self, waiting: list[str]) -> Iterable[str]:
        start = self._turn % len(waiting) if waiting else 0
        self._turn = start + _MOST
        return islice((*waiting[start:], *waiting[:start]), _MOST)

    def _text(self, key: str) -> str | None:
        state = self._state.feed.state
        job = state.book.jobs.get(key)
        if job is None or not job.tasks:
            return None
        closed, tasks = self._state.closed(), job.tasks.values()
        parts = self._parts(self._state.feed.groups[key])
        if parts is None:
            least = max(1, job.min_member - count(job.counts, READY_STATES))
            outside = self._outside(key)
            sentences = by_member(state.nodes, tasks, closed, least, outside)
            self._add_coming(sentences, outside, closed)
            owner = controller_of(self._state.feed.groups[key])
            sentences |= self._together(owner.uid or "") if owner is not None else {}
        else:
            sentences = by_part(state.nodes, tasks, closed, parts.least, parts.clusters)
            self._add_coming(sentences, (), closed)
        text = msgspec.json.encode(sentences).decode()
        return text if len(text) <= _MOST_BYTES else None

    def _add_coming(self, sentences: dict[str, str], outside: Container[str], closed: Container[str]) -> None:
        """What may come in members that may have the gang."""
        for name in self._state.members():
            if name not in outside and name not in closed and (more := self._coming(name)):
                sentences[name] = f"{sentences[name]}; {more}" if name in sentences else more

    def _outside(self, key: str) -> Mapping[str, str]:
        """Members that rules keep the gang from."""
        owner = controller_of(self._state.feed.groups[key])
        return self._state.outside.get(owner.uid or "", {}) if owner is not None else {}

    def _wish(self, key: str, text: str | None) -> None:
        group = self._state.feed.groups[key]
        if (group.metadata.annotations or {}).get(MEMBER_REASONS) != text:
            self._outbox.put(key, _Wish(text), urgent=False, settle=1.0)
        else:
            self._outbox.discard(key)

    async def _write(self, key: str, wish: _Wish) -> bool:
        group = self._state.feed.groups.get(key)
        if group is None or (group.metadata.annotations or {}).get(MEMBER_REASONS) == wish.text:
            return False
        patch = {
            "metadata": {"resourceVersion": group.metadata.resource_version, "annotations": {MEMBER_REASONS: wish.text}}
        }
        written = await self._client.patch(POD_GROUPS, group.metadata.name, patch, namespace=group.metadata.namespace)
        self._state.feed.learn(POD_GROUPS, written)
        return True
