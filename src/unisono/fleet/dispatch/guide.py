"""Which members a job that waits may go to: policies, and members that have failed it lately."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final

from unisono.api.annotations import REBALANCE, START_TIMEOUT
from unisono.api.base import Object
from unisono.api.kind import Kind
from unisono.api.times import parse_time
from unisono.fleet.dispatch.moving import LOOK_SECONDS, Seat, why_move, with_room
from unisono.fleet.hub_state import HubState
from unisono.fleet.jobs.bounds import guided
from unisono.fleet.jobs.copies import Placement
from unisono.fleet.jobs.timeouts import annotated_seconds
from unisono.fleet.jobs.work import Work
from unisono.fleet.policies.book import PolicyBook
from unisono.fleet.policies.rules import TIER
from unisono.kube.clock import Clock
from unisono.kube.controller import sooner
from unisono.kube.pace import Backoff

START_SECONDS: Final = 600.0
"""How long a job may be in a member without a node for one of its pods."""

# A member may be given a kind that it lacked; this is how often that is looked at (seconds).
_LOOK_AGAIN: Final = 60.0


@dataclass(slots=True)
class _Trip:
    """What is remembered of a job.

    Attributes:
        since: since when it has waited on the hub, in seconds since 1970; None while it is with a member.
        sent: since when it has been with its member, on the monotonic clock, for a number of dispatch.
        failures: failures by member, and until when it is avoided.

    """

    since: float | None = None
    sent: tuple[int, float] | None = None
    failures: dict[str, tuple[int, float]] = field(default_factory=dict)


class Guide:
    """What is remembered is lost with the hub, and learnt again."""

    def __init__(self, kind: Kind[Any], book: PolicyBook, state: HubState, clock: Clock) -> None:
        """``kind`` is that of the copies."""
        self._kind, self._book, self._state, self._clock = kind, book, state, clock
        self._trips: dict[str, _Trip] = {}
        self._backoff = Backoff(base=30.0, cap=900.0)

    def forget(self, uid: str) -> None:
        """A job is gone."""
        self._trips.pop(uid, None)
        self._state.outside.pop(uid, None)

    def failed(self, uid: str, cluster: str) -> None:
        """A member does not take the job, or does not start it."""
        trip = self._trips.setdefault(uid, _Trip())
        number = trip.failures.get(cluster, (0, 0.0))[0] + 1
        trip.failures[cluster] = number, self._clock.monotonic() + self._backoff.delay(number)

    def guide(
        self, kind: Kind[Any], subject: Object, uid: str, work: Work, placement: Placement
    ) -> tuple[Work, float | None]:
        """The work kept to where it may go, and after how many seconds that changes by itself.

        Args:
            kind: of ``subject``.
            subject: the job, or the HyperJob of which it is a part.
            uid: of the job.
            work: what stands for the job.
            placement: where it is.

        """
        trip = self._trips.setdefault(uid, _Trip())
        if placement.cluster:
            trip.since = None
            self._state.outside.pop(uid, None)
            return work, None
        if trip.since is None:
            made = subject.metadata.creation_timestamp if not placement.generation else None
            trip.since = parse_time(made) if made else self._clock.time()
        now = self._clock.monotonic()
        avoided = {name: until - now for name, (_, until) in trip.failures.items() if until > now}
        waited = max(0.0, self._clock.time() - trip.since)
        rules = self._book.rules(kind, subject, work.pods, waited, avoided)
        lacking = sorted(name for name, kinds in self._state.absent.items() if self._kind.resource in kinds)
        outside = {**dict.fromkeys(lacking, f"its API has no {self._kind.resource}"), **rules.outside}
        self._state.outside[uid] = outside
        inside = None
        if rules.bound:
            inside = [each.name for each in self._book.clusters() if each.name not in outside]
        guided_work = Work(work.group, guided(work.pods, inside, outside, rules.points))
        return guided_work, sooner(rules.again, _LOOK_AGAIN if lacking else None)

    def moves(self, kind: Kind[Any], job: Object, work: Work, placement: Placement) -> tuple[str, float | None]:
        """Why a job had better leave its member, and after how many seconds to look again."""
        uid = job.metadata.uid or ""
        if (job.metadata.annotations or {}).get(REBALANCE) != "true":
            return "", None
        started = self._state.stand_ins.has_started(uid)
        here = placement.cluster
        rules = self._book.rules(kind, job, work.pods, math.inf, {})
        clusters = {each.name: each for each in self._book.clusters()}
        seat = Seat(
            here,
            started,
            self._seconds_there(uid, placement),
            may_move=True,
            drained=here in clusters and clusters[here].gone,
            points=rules.points.get(TIER, {}),
        )
        trip = self._trips.setdefault(uid, _Trip())
        now = self._clock.monotonic()
        avoided = {name for name, (_, until) in trip.failures.items() if until > now}
        room = {
            name
            for name in with_room(self._state.feed.state.nodes, work.pods)
            if name != here and name not in rules.outside and name not in avoided and self._state.is_open(name)
        }
        return why_move(seat, room), LOOK_SECONDS

    def _seconds_there(self, uid: str, placement: Placement) -> float:
        trip, now = self._trips.setdefault(uid, _Trip()), self._clock.monotonic()
        if trip.sent is None or trip.sent[0] != placement.generation:
            trip.sent = placement.generation, now
        return now - trip.sent[1]

    def stalls(self, job: Object, placement: Placement) -> float | None:
        """Seconds that the member has left to start the job: 0.0 when time is up, None where it has started."""
        uid = job.metadata.uid or ""
        limit = annotated_seconds(job, START_TIMEOUT, START_SECONDS)
        if limit <= 0 or not placement.cluster or self._state.stand_ins.has_started(uid):
            return None
        return max(0.0, limit - self._seconds_there(uid, placement))
