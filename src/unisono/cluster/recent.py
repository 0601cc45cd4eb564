"""What has happened lately: failed binds, evictions, and how long jobs of one kind have run."""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from unisono.api.core import Pod
from unisono.api.times import parse_time
from unisono.cluster.records import Task
from unisono.cluster.status import TaskStatus

# Jobs whose binds failed lately, or for which a plug-in failed: what the next decisions need to know of it.


@dataclass(frozen=True, slots=True)
class Setback:
    """Binds of one job that the API server refused, or a plug-in that failed for it, again and again.

    Attributes:
        failures: attempts that failed, in a row.
        why: what the latest one failed on, with its node: ``node n1: admission webhook said no``.
        waiting: the job is not to be placed at present; others get the room.
        until: when it is placed again, seconds since the epoch.
        over: when the failures are forgotten, if no more come; before that no pod is evicted for the job.
        nodes: those that refused it: it is placed there only where no other node takes it.
        plugin: a plug-in failed for the job; ``why`` says which, and in what.
    """

    failures: int
    why: str
    waiting: bool
    until: float
    over: float
    nodes: frozenset[str] = frozenset()
    plugin: bool = False


# Evictions of the last day, so that limits on how many there may be in a while can be counted.

KEPT_SECONDS = 86_400.0
"""Older ones are forgotten: no limit looks further back."""


@dataclass(frozen=True, slots=True)
class PastEviction:
    """One eviction that was decided and has not failed.

    Attributes:
        time: when it was decided, seconds since the epoch.
        pod, uid: of the pod, ``namespace/name``.
        job: key of its PodGroup.
        queue: its queue at that time.
    """

    time: float
    pod: str
    uid: str
    job: str
    queue: str


class EvictionLog:
    """Evictions in the order in which they were decided."""

    def __init__(self) -> None:
        self._entries: deque[PastEviction] = deque()

    def note(self, eviction: PastEviction) -> None:
        """Take in one more; it is the newest."""
        self._entries.append(eviction)
        while self._entries and self._entries[0].time < eviction.time - KEPT_SECONDS:
            self._entries.popleft()

    def strike(self, uid: str) -> None:
        """The eviction of this pod has failed: it does not count."""
        eviction = next((entry for entry in reversed(self._entries) if entry.uid == uid), None)
        if eviction is not None:
            self._entries.remove(eviction)

    def since(self, time: float) -> Iterable[PastEviction]:
        """Those at ``time`` or later, newest first."""
        for entry in reversed(self._entries):
            if entry.time < time:
                return
            yield entry

    def __len__(self) -> int:
        return len(self._entries)


# How long jobs of one kind have run lately: the mean of the last two runs.
#
# D. Tsafrir, Y. Etsion and D. Feitelson, "Backfilling using system-generated predictions rather than user runtime
# estimates", IEEE TPDS 18 (2007), found the mean of a user's last two jobs to predict better than what users state, and
# longer histories to predict no better. The user is a namespace here, and jobs are of one kind when their names differ
# in numbers and generated endings only.

_KEPT = 20_000
"""Kinds of jobs that are remembered, those that ended last."""
_RUNS = 2

_UID = re.compile(r"-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_NUMBER = re.compile(r"-(?:\d+|[0-9a-f]{5,}|[bcdfghjklmnpqrstvwxz2456789]{5})$")

Family = tuple[str, str, str]
"""Namespace, beginning of the job's name, role."""


@dataclass(slots=True)
class _Run:
    ended: float
    job: str
    seconds: float


class RunTimes:
    """Run times by kind of job; what is known is lost with the process, but for pods that are still there."""

    def __init__(self) -> None:
        self._runs: OrderedDict[Family, list[_Run]] = OrderedDict()

    def learn(self, pod: Pod, task: Task) -> None:
        """Take in a pod of a job that has succeeded; hearing of it again changes nothing. Failures tell nothing."""
        seconds = ran_seconds(pod, task) if task.job else 0.0
        if not seconds:
            return
        ended = ended_at(pod)
        family = family_of(task)
        runs = self._runs.setdefault(family, [])
        same = next((run for run in runs if run.job == task.job), None)
        if same is None:
            runs.append(_Run(ended, task.job, seconds))
        else:  # a gang has run for as long as its longest pod
            same.ended, same.seconds = max(same.ended, ended), max(same.seconds, seconds)
        runs.sort(key=lambda run: (run.ended, run.job))
        del runs[:-_RUNS]
        self._runs.move_to_end(family)
        if len(self._runs) > _KEPT:
            self._runs.popitem(last=False)

    def estimate(self, task: Task) -> float:
        """Mean seconds of the last two runs of jobs like the task's; 0.0 when there was none."""
        runs = self._runs.get(family_of(task))
        return sum(run.seconds for run in runs) / len(runs) if runs else 0.0

    def __len__(self) -> int:
        return len(self._runs)


def family_of(task: Task) -> Family:
    """What the task's job has in common with others of its kind."""
    return task.namespace, beginning(task.job.partition("/")[2]), task.role


@lru_cache(maxsize=65536)
def beginning(name: str) -> str:
    """``train-resnet`` of ``train-resnet-42``, of ``train-resnet-x7k2p`` and of either followed by a UID."""
    name = _UID.sub("", name)
    while (match := _NUMBER.search(name)) is not None:
        ending = match.group()
        if match.start() == 0 or not any(letter.isdigit() for letter in ending):
            break
        name = name[: match.start()]
    return name


def ran_seconds(pod: Pod, task: Task) -> float:
    """How long a pod ran that has succeeded; 0.0 for all others."""
    ended = ended_at(pod) if task.status is TaskStatus.SUCCEEDED else 0.0
    began = task.since or task.created
    return ended - began if 0.0 < began < ended else 0.0


def ended_at(pod: Pod) -> float:
    """When the last container ended, 0.0 when that is not stated readably."""
    times = [
        status.state.terminated.finished_at
        for status in pod.status.container_statuses or ()
        if status.state.terminated is not None
    ]
    try:
        return max((parse_time(time) for time in times if time), default=0.0)
    except ValueError:
        return 0.0
