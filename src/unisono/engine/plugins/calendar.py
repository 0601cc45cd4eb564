"""calendar: nodes that Reservations keep for some, or for maintenance, from a time to a time.

Within a window its nodes take only the jobs that may use them; before it others only where they are known to end in
time. A job that names a reservation runs on its nodes and within its windows alone. `unisono.engine.calendar` lets pods
leave whose time is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from unisono.api.annotations import RESERVATION, RUN_SECONDS
from unisono.api.selecting import lineage
from unisono.api.times import rfc3339
from unisono.cluster.podclass import PodClass
from unisono.engine.answers import BoolArray, Parts, Reason, Scope, Veto
from unisono.engine.changes import AddAnnotation, Change
from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugins.common.annotations import account_of
from unisono.engine.session.calendar import Slot, slots_at
from unisono.engine.session.run_times import RunEstimates
from unisono.engine.verdict import Cause

if TYPE_CHECKING:
    from unisono.cluster.records import Job
    from unisono.cluster.waiting_jobs import Alike
    from unisono.engine.session.node_view import NodeView
    from unisono.engine.session.session import Session

_AUTO = Argument(
    "calendar.AutoEnable", "bool", False, "nothing without Reservations, jobs that name one, and limits of run times"
)
_LEARN = Argument(
    "calendar.learnRunTimes", "bool", False, "expect jobs to run as long as the last two of their kind have"
)
_LEAST_SECONDS = 60.0
"""No shorter run time is suggested."""


@dataclass(frozen=True, slots=True)
class Refused:
    """What keeps pods of one class of a job away, for one reason.

    Attributes:
        reason: in words.
        slot: whose nodes are meant; None: all.
        others: all but its nodes are meant.
    """

    reason: Reason
    slot: int | None = None
    others: bool = False


class CalendarPlugin(Plugin):
    """Keeps nodes for those whose reservation it is."""

    name = "calendar"
    scope = Scope.JOB
    steady = True
    known_arguments = (_AUTO, _LEARN)

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        self.learn = bool(argument_value(_LEARN, self.arguments))

    @classmethod
    def used(cls, session: Session) -> bool:
        """With Reservations, jobs that name one, or limits of run times."""
        snapshot = session.snapshot
        return bool(snapshot.catalogue.bookings or snapshot.calendar.reserving or snapshot.calendar.limiting)

    def open(self, session: Session) -> None:
        """Find the windows of the moment."""
        self.session = session
        self.estimates = RunEstimates(session, learned=self.learn)
        self.slots = slots_at(session)
        self.numbers = {slot.booking.name: number for number, slot in enumerate(self.slots)}
        self._parents = {name: queue.record.parent for name, queue in session.queues.items()} if self.slots else {}
        self._admitted: dict[tuple[str, str, str], frozenset[int]] = {}
        self._kept = [_reason(slot, session.now) for slot in self.slots]
        session.shared.put(self)

    # ---- who may go where

    def admitted(self, record: Job) -> frozenset[int]:
        """Numbers of the slots whose nodes the job may use."""
        key = record.queue, account_of(record), record.namespace
        slot_numbers = self._admitted.get(key)
        if slot_numbers is None:
            above = lineage(record.queue, self._parents)
            slot_numbers = self._admitted[key] = frozenset(
                number for number, slot in enumerate(self.slots) if slot.booking.admits(key[1], key[2], iter(above))
            )
        return slot_numbers

    def refused(self, record: Job, pod_class: PodClass) -> list[Refused]:
        """What keeps waiting pods of a class of the job away."""
        now, admitted = self.session.now, self.admitted(record)
        longest = self.estimates.longest(record, pod_class)
        end = now + longest if longest else inf
        refusals: list[Refused] = []
        named = named_by(record, pod_class)
        if named:
            refusals += self._of_named(named, admitted, end if longest else now)
        for number, slot in enumerate(self.slots):
            if number not in admitted and end > slot.window.start:
                refusals.append(Refused(self._kept[number], number))
        return refusals

    def _of_named(self, name: str, admitted: frozenset[int], end: float) -> list[Refused]:
        """The same for the reservation that the job names; ``end``: when its pods end at least."""
        number = self.numbers.get(name)
        if number is None:
            what = "is over" if name in self.session.snapshot.catalogue.bookings else "does not exist"
            return [Refused(_own(f"node(s) wait for reservation {name}, which {what}"))]
        window = self.slots[number].window
        if number not in admitted:
            return [Refused(_own(f"node(s) wait for reservation {name}, which is not for this job"))]
        if not window.holds(self.session.now):
            return [Refused(_own(f"node(s) wait for reservation {name}, which is from {window.text}"))]
        if end > window.end:
            text = f"node(s) of reservation {name} are only kept until {rfc3339(window.end)}, and the job runs longer"
            return [Refused(_own(text))]
        return [Refused(_own(f"node(s) are not of reservation {name}"), number, others=True)]

    # ---- nodes

    def concerns(self, pod_class: PodClass) -> bool:
        """Only while there is something to keep."""
        return bool(self.slots) or bool(self.session.snapshot.calendar.reserving)

    def filter(self, pod_class: PodClass, nodes: NodeView) -> Sequence[Veto]:
        """Nodes that are kept for others, by now or too soon."""
        job = self.session.subject
        return self._vetoes(job.record, pod_class, nodes) if job is not None else ()

    def closed(self, record: Job, pod_class: PodClass) -> BoolArray:
        """``[N]`` nodes of the session that refuse the job's pods of a class."""
        nodes = self.session.nodes
        vetoes = [veto.nodes for veto in self._vetoes(record, pod_class, nodes)]
        return np.logical_or.reduce(vetoes) if vetoes else np.zeros(nodes.size, dtype=np.bool_)

    def _vetoes(self, record: Job, pod_class: PodClass, nodes: NodeView) -> list[Veto]:
        vetoes: list[Veto] = []
        for refused in self.refused(record, pod_class):
            if refused.slot is None:
                vetoes.append(Veto(np.ones(nodes.size, dtype=np.bool_), refused.reason))
            else:
                inside = np.isin(nodes.columns, self.slots[refused.slot].columns)
                vetoes.append(Veto(~inside if refused.others else inside, refused.reason))
        return vetoes

    def answers_alike(self, pod_class: PodClass) -> str | None:
        """What is refused; jobs of which nothing is refused share all answers."""
        job = self.session.subject
        return self._answer(job.record, pod_class) if job is not None else None

    def answers_in_parts(self, pod_class: PodClass, jobs: Alike) -> Parts | None:
        """One answer, or two; jobs with more are asked one by one."""
        records, by_answer = self.session.snapshot.jobs, dict[str, list[tuple[float, str]]]()
        for entry in jobs.aged:
            by_answer.setdefault(self._answer(records[entry[1]], pod_class), []).append(entry)
            if len(by_answer) > 2:
                return None
        usual, *other = sorted(by_answer, key=lambda answer: -len(by_answer[answer]))
        return Parts(usual, by_answer[other[0]], other[0]) if other else Parts(usual, (), "")

    def _answer(self, record: Job, pod_class: PodClass) -> str:
        # The reason tells what is meant, but for whether it is all nodes.
        return "\n".join([f"{one.slot} {one.reason.text}" for one in self.refused(record, pod_class)])

    def relax(self, pod_class: PodClass, nodes: NodeView) -> Sequence[Change]:
        """A run time so short that the pods end before the next window begins; the longest of these first."""
        job, now = self.session.subject, self.session.now
        if job is None or named_by(job.record, pod_class):
            return ()
        starts = {
            self.slots[one.slot].window.start for one in self.refused(job.record, pod_class) if one.slot is not None
        }
        left = sorted((start - now for start in starts if start - now > _LEAST_SECONDS), reverse=True)
        return [AddAnnotation(RUN_SECONDS, f"{seconds // _LEAST_SECONDS * _LEAST_SECONDS:g}") for seconds in left]


def named_by(record: Job, pod_class: PodClass) -> str:
    """The reservation that a job, or the template of its pods of a class, names; empty for none."""
    return record.annotations.get(RESERVATION) or pod_class.notes.get(RESERVATION, "")


def _own(text: str) -> Reason:
    return Reason(text, unresolvable=True, cause=Cause.RESERVED)


def calendar_of(plugins: Iterable[Plugin]) -> CalendarPlugin | None:
    """The plug-in, where it is one of these."""
    return next((one for one in plugins if isinstance(one, CalendarPlugin)), None)


def _reason(slot: Slot, now: float) -> Reason:
    booking, window = slot.booking, slot.window
    what = "maintenance" if booking.maintenance else "reservation"
    if window.holds(now):
        return _own(f"node(s) were kept for {what} {booking.name} until {rfc3339(window.end)}")
    return _own(f"node(s) were kept for {what} {booking.name} from {window.text}")
