"""tdm: nodes that belong to other users by day and to batch jobs by night (time division multiplexing).

Nodes with label ``volcano.sh/revocable-zone`` take pods only within the window of their zone, and only pods that agree
to be evicted when it ends.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from unisono.api.cron import Schedule, parse_schedule
from unisono.api.keys import JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE, PREEMPTABLE, REVOCABLE_ZONE
from unisono.api.messages import counted
from unisono.api.times import parse_duration
from unisono.cluster.interning import Memory
from unisono.cluster.limits import scaled
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Job, Task
from unisono.cluster.status import COMPLETED_STATES, TaskStatus, count
from unisono.engine.answers import BoolArray, Key, Purpose, RawScore, Reason, Refusal, Veto, Vote
from unisono.engine.changes import AddAnnotation, Change
from unisono.engine.config.arguments import Argument, Shape, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.session.node_view import NodeView
from unisono.engine.verdict import Cause
from unisono.errors import ConfigError

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState
    from unisono.engine.session.session import Session

_ZONE = "tdm.revocable-zone."
_PERIOD = Argument("tdm.evict.period", "duration", "1m", "least time between two evictions of what stays too long")
_CLOCK = Argument("tdm.time-zone", "text", "UTC", "where the windows' times are meant, such as `Europe/Berlin`")
_WINDOW = re.compile(r"\s*(\d{1,2}):(\d\d)\s*-\s*(\d{1,2}):(\d\d)\s*")
_LONGEST = 366 * 86_400.0
_TRUE = frozenset(("1", "t", "T", "true", "TRUE", "True"))

NO_RIGHT = Reason("not allow to dispatch to revocable node", unresolvable=True)


@dataclass(frozen=True, slots=True)
class Window:
    """A time of day, in minutes; one that ends before it starts goes over midnight."""

    start: int
    end: int
    text: str

    def holds(self, here: datetime) -> bool:
        """Whether a moment is inside; equal ends mean the whole day."""
        minute = here.hour * 60 + here.minute
        if self.start < self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end

    def minutes_until(self, here: datetime) -> int:
        """How long it is until it opens."""
        return (self.start - here.hour * 60 - here.minute) % 1440

    def opening(self, here: datetime) -> str:
        """When it opens next, in words."""
        return self.text.partition("-")[0]


@dataclass(frozen=True, slots=True)
class CronWindow:
    """Open from each time of one cron line to the next time of another."""

    start: Schedule
    end: Schedule
    text: str

    def holds(self, here: datetime) -> bool:
        """Whether a moment is inside: it has begun since it last ended."""
        now = here.timestamp()
        began = self.start.latest(now - _LONGEST, now, here.tzinfo or UTC)
        return began is not None and self.end.latest(began, now, here.tzinfo or UTC) is None

    def minutes_until(self, here: datetime) -> int:
        """How long it is until it opens."""
        opens_at = self.start.next(here.timestamp(), here.tzinfo or UTC)
        return int(max(opens_at - here.timestamp(), 0.0) // 60) if opens_at is not None else 1440

    def opening(self, here: datetime) -> str:
        """When it opens next, in words."""
        opens_at = self.start.next(here.timestamp(), here.tzinfo or UTC)
        return f"{datetime.fromtimestamp(opens_at, here.tzinfo):%Y-%m-%d %H:%M}" if opens_at is not None else self.text


def read_window(text: str) -> Window | CronWindow | None:
    """``HH:MM-HH:MM``, or two cron lines ``M H * * *:M H * * *``; None when the text is of neither form."""
    match = _WINDOW.fullmatch(text)
    if match is None:
        return _read_cron(text.strip())
    hour, minute, end_hour, end_minute = (int(part) for part in match.groups())
    if hour > 23 or end_hour > 24 or minute > 59 or end_minute > 59:
        return None
    return Window(hour * 60 + minute, (end_hour * 60 + end_minute) % 1440, text.strip())


def _read_cron(text: str) -> CronWindow | None:
    start, _, end = text.partition(":")
    try:
        return CronWindow(parse_schedule(start), parse_schedule(end), text)
    except ValueError:
        return None


@dataclass(slots=True)
class _LastEviction(Memory):
    """When pods were last evicted from nodes whose window is over, seconds since the epoch; None: never."""

    at: float | None = None


class TdmPlugin(Plugin):
    """Keeps revocable nodes to their windows."""

    name = "tdm"
    momentary = True
    known_arguments = (
        Argument(
            _ZONE + "*",
            "text",
            None,
            "window of one zone, `HH:MM-HH:MM`, which may go over midnight, or two cron lines, `0 8 * * *:0 18 * * *`",
            shape=Shape(
                "text",
                right=lambda text: read_window(text) is not None,
                form="a window such as 08:00-18:00, or two cron lines such as 0 8 * * *:0 18 * * *",
            ),
        ),
        _PERIOD,
        _CLOCK,
    )

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        windows = {key.removeprefix(_ZONE): text for key, text in self.arguments.items() if key.startswith(_ZONE)}
        self.windows = {zone: window for zone, text in windows.items() if (window := read_window(str(text)))}
        self.period = parse_duration(str(argument_value(_PERIOD, self.arguments)))
        name = str(argument_value(_CLOCK, self.arguments))
        try:
            self.clock = ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise ConfigError(f"tdm.time-zone {name} is not known; write UTC or Europe/Berlin, for example") from error

    def open(self, session: Session) -> None:
        """See which zones are within their window now."""
        self.session = session
        here = datetime.fromtimestamp(session.now, self.clock)
        self.here = here
        self.active = {zone for zone, window in self.windows.items() if window.holds(here)}

    def beyond(self, zone: str) -> str:
        """What is said of nodes of a zone that is outside its window, or has none."""
        window = self.windows.get(zone)
        return (
            f"current time beyond revocable zone {zone}:{window.text}"
            if window
            else f"revocable zone {zone} not support"
        )

    # ---- nodes

    def static_filter(self, pod_class: PodClass, nodes: NodeView) -> Sequence[Veto]:
        """Nodes of unknown zones, of zones outside their window, and all of them for pods without the right."""
        codes = nodes.label_codes(REVOCABLE_ZONE)
        vetoes = []
        for code, zone in enumerate(nodes.table.label_values(REVOCABLE_ZONE)):
            if zone in self.active:
                continue
            vetoes.append(
                Veto(codes == code, Reason(self.beyond(zone), unresolvable=True, passing=zone in self.windows))
            )
        if not _has_right(pod_class.notes):
            vetoes.append(Veto(codes >= 0, NO_RIGHT))
        return vetoes

    def static_score(self, pod_class: PodClass, nodes: NodeView) -> Sequence[RawScore]:
        """100 on revocable nodes that are open, for pods that may go there."""
        if not _has_right(pod_class.notes):
            return ()
        table = nodes.table
        codes = [code for code, zone in enumerate(table.label_values(REVOCABLE_ZONE)) if zone in self.active]
        return (RawScore(np.isin(nodes.label_codes(REVOCABLE_ZONE), codes).astype(np.float64), 100.0),)

    def relax(self, pod_class: PodClass, nodes: NodeView) -> Sequence[Change]:
        """Let the pods be evicted, where there are revocable nodes."""
        zoned = bool((nodes.label_codes(REVOCABLE_ZONE) >= 0).any())
        return (AddAnnotation(PREEMPTABLE, "true"),) if zoned and not _has_right(pod_class.notes) else ()

    # ---- orders and states

    def job_key(self, job: JobState) -> Key:
        """Jobs that cannot be evicted first: they have fewer nodes to go to."""
        return _says_true(job.record.annotations, job.record.labels)

    def pipelined(self, job: JobState) -> Vote | Refusal:
        """Allocated and pipelined tasks together are enough."""
        if job.is_pipelined:
            return Vote.PERMIT
        have, need = job.ready_count + job.waiting_count, job.min_member
        text = f"only {have} of {counted(need, 'task')} of the gang can get a place"
        return Refusal(text, Cause.NODES_FULL, need={"pods": need}, have={"pods": have})

    def starving(self, job: JobState) -> bool:
        """It cannot be evicted itself and has waiting tasks."""
        preemptable = _says_true(job.record.annotations, job.record.labels)
        return not preemptable and job.counts[TaskStatus.PENDING] > 0

    # ---- victims

    def victims(
        self, actor: JobState, task: Task | None, candidates: Sequence[Task], purpose: Purpose
    ) -> BoolArray | None:
        """For a task that cannot be evicted itself: running tasks on ordinary nodes, as many per job as it can miss."""
        if purpose is not Purpose.PREEMPT or task is None:
            return None
        if _says_true(task.annotations, task.labels) or _has_right(task.annotations):
            return np.zeros(len(candidates), dtype=np.bool_)
        return self._spared([other if not self._zone_of(other) else None for other in candidates])

    def shuffled(self, candidates: Sequence[Task]) -> BoolArray | None:
        """Tasks that agreed to be evicted and still run on nodes whose window is over; once per period."""
        now, last = self.session.now, self.session.snapshot.memo.of(_LastEviction, _LastEviction)
        if last.at is not None and 0 <= now - last.at < self.period:
            return None
        late = [self._zone_of(task) not in ("", *self.active) for task in candidates]
        chosen = self._spared([task if over else None for task, over in zip(candidates, late, strict=True)])
        if chosen.any():
            last.at = now
        return chosen

    def _zone_of(self, task: Task) -> str:
        table = self.session.snapshot.nodes
        column = table.index.get(task.node)
        return "" if column is None else table.facts[column].labels.get(REVOCABLE_ZONE, "")

    def _spared(self, tasks: Sequence[Task | None]) -> BoolArray:
        """Running, preemptable tasks in order, of each job as many as its budget lets go."""
        taken: Counter[str] = Counter()
        chosen = np.zeros(len(tasks), dtype=np.bool_)
        for index, task in enumerate(tasks):
            if task is None or task.status is not TaskStatus.RUNNING or not task.preemptable:
                continue
            job = self.session.job(task.job)
            if job is not None and taken[job.key] < spare(job.record, job.counts):
                taken[job.key] += 1
                chosen[index] = True
        return chosen


def spare(job: Job, counts: list[int]) -> int:
    """How many running tasks a job can miss: by its disruption budget (annotations), else one."""
    whole, running = len(job.tasks), counts[TaskStatus.RUNNING]
    try:
        if value := job.annotations.get(JDB_MIN_AVAILABLE):
            return max(running - scaled(_number(value), whole), 0)
        if value := job.annotations.get(JDB_MAX_UNAVAILABLE):
            missing = whole - count(counts, COMPLETED_STATES) - running
            return max(scaled(_number(value), whole) - missing, 0)
    except ValueError:
        return 0  # a budget that cannot be read was still meant as one
    return 1


def _number(text: str) -> int | str:
    return text if text.endswith("%") else int(text)


def _says_true(annotations: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return annotations.get(PREEMPTABLE, labels.get(PREEMPTABLE, "")) in _TRUE


def _has_right(annotations: Mapping[str, str]) -> bool:
    """Whether a pod may use revocable nodes: it says ``*``, or, saying nothing of zones, that it can be evicted."""
    zone = annotations.get(REVOCABLE_ZONE)
    return zone == "*" if zone is not None else annotations.get(PREEMPTABLE, "") in _TRUE
