"""When and where it is worked out why jobs wait: within a cycle, or beside it, in a copy of the process."""

from __future__ import annotations

import gc
import os
import pickle
import resource
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn

import structlog

from unisono.cluster.records import Task
from unisono.cluster.snapshot import Snapshot
from unisono.cluster.status import TaskStatus
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.decisions import Decisions
from unisono.engine.plugins.registry import is_built_in
from unisono.engine.verdict import Asked

_log = structlog.get_logger(__name__)

_PARTS: Final = 8
"""Of so many parts of a scheduler's time explanations take one at most where they are part of its cycles."""
_LONGEST_SILENCE: Final = 10.0
"""Seconds after which it is explained again, however long it took the last time: new jobs wait for a first word."""
_LONG: Final = 0.1
_MANY: Final = 100
"""Waiting jobs for which that is supposed before it is known."""
_MOST_SECONDS: Final = 60
"""Of a copy: it is ended then, and counts as failed."""
_FAILED_SECONDS: Final = 300.0
"""After a copy has failed, explanations are part of cycles for so long."""
_NICENESS: Final = 5
STARTED = frozenset(("Running", "Completed"))
"""Phases of jobs that wait for nothing."""
_SAID = (
    *("cycle", "pod_groups", "pod_conditions", "queues", "reservations", "verdicts", "violations", "plugins_off"),
    *("figures", "resources", "sharable", "explained"),
)
"""What a copy tells of its decisions: all that says how things stand. The others are carried out by the cycle."""


@dataclass(slots=True)
class Explained:
    """What a copy has found out.

    Attributes:
        decisions: what they say of how things stood; without binds and evictions.
        seconds: that the copy took for the explanation.
        bound, evicted: pods, as the copy's cycle decided. The cycle beside it decided the same of the same cluster.

    """

    decisions: Decisions
    seconds: float
    bound: set[str] = field(default_factory=set)
    evicted: set[str] = field(default_factory=set)


Told = Callable[[Explained | str], None]
"""Hears what a copy has found out, or why it has not."""


class Meanwhile:
    """What cycles decided since a copy of the process began to explain.

    Attributes:
        version: of the cluster's state that is explained.
        bound, evicted: pods, by the cycle that began beside the copy.
        violations: of that cycle.

    """

    def __init__(self, beside: Decisions, version: int) -> None:
        """``beside``: of the cycle that was begun with the copy, on the same snapshot."""
        self.version, self.violations = version, beside.violations
        self.bound = {f"{bind.namespace}/{bind.pod}" for bind in beside.binds}
        self.evicted = {f"{eviction.namespace}/{eviction.pod}" for eviction in beside.evictions}
        self._told: set[str] = set()
        self._started: set[str] = set()
        self._pods: set[str] = set()

    def note(self, decisions: Decisions) -> None:
        """A later cycle's: what it says of a job counts for more."""
        self._started |= {bind.job for bind in decisions.binds}
        self._started |= {update.key for update in decisions.pod_groups if update.phase in STARTED}
        self._told |= {update.key for update in decisions.pod_groups}
        self._pods |= {f"{one.namespace}/{one.pod}" for one in decisions.pod_conditions}

    def remove_outdated(self, told: Decisions, tasks: Mapping[str, Task]) -> None:
        """Leave out what does not hold any more; the next explanation tells of it."""
        told.pod_groups = [one for one in told.pod_groups if one.key not in self._told]
        told.verdicts = {job: verdict for job, verdict in told.verdicts.items() if job not in self._started}
        told.pod_conditions = [
            one
            for one in told.pod_conditions
            if (key := f"{one.namespace}/{one.pod}") not in self._pods
            and (task := tasks.get(key)) is not None
            and task.status is TaskStatus.PENDING
        ]


class Explanations:
    """When a cycle explains, and where.

    Where thousands of jobs wait, it takes many times as long to say why as to decide who starts. Explanations that are
    part of cycles take at most one of `_PARTS` parts of the scheduler's time: cycles that only decide stand between
    those that explain as well. With `copies` what takes long is worked out in a copy of the process, as it is when a
    cycle begins: the cycle then only decides, on another processor, and no decision waits for an explanation. The copy
    shares the memory of what neither of both changes.

    Attributes:
        copying: a copy is at work.

    """

    def __init__(
        self,
        monotonic: Callable[[], float],
        asked: Asked | None = None,
        copies: Callable[[Callable[[], Explained], Told], Copy] | None = None,
        least: float = _LONG,
    ) -> None:
        """Make one.

        Args:
            monotonic: seconds that only grow.
            asked: the jobs that are explained, None: all.
            copies: works something out in a copy of the process and tells it, see `in_copy`; None: there are none.
            least: seconds; what takes longer is worked out in a copy.

        """
        self._monotonic, self._verdicts, self._copies, self._least = monotonic, asked or True, copies, least
        self._due = self._failed_until = 0.0
        self._took: float | None = None
        self._copy_at_work: Copy | None = None
        self._closed = False
        self.copying = False
        self.tell: Callable[[Explained], object] = lambda _: None
        """Hears what a copy has found out, in a thread of its own."""

    def decide(
        self, run: Callable[..., Decisions], snapshot: Snapshot, config: SchedulerConfig, now: float, seed: int
    ) -> Decisions:
        """Run a cycle with or without explanations; one without them asks for another one when they are due."""
        rests = self._due - self._monotonic()
        due = rests <= 0 and not self.copying
        if due and self._copies is not None and self._takes_long(snapshot) and self._may_copy(config):
            due = False
            self._copy(lambda: run(snapshot, config, now, seed, verdicts=self._verdicts))
        decisions = run(snapshot, config, now, seed, verdicts=due and self._verdicts)
        if decisions.explained:
            self._took = _spent(decisions)
            self._due = self._monotonic() + min((_PARTS - 1) * self._took, _LONGEST_SILENCE)
        elif not self.copying:
            again_at = now + max(rests, 0.0)
            decisions.again_at = again_at if decisions.again_at is None else min(decisions.again_at, again_at)
        return decisions

    def close(self) -> None:
        """Explain nothing more: the copy that is at work ends."""
        self._closed, self.tell = True, lambda _: None
        if self._copy_at_work is not None:
            self._copy_at_work.end()

    def pause(self) -> float:
        """Seconds until the next explanation may begin."""
        return max(0.0, self._due - self._monotonic())

    def within_cycles(self) -> None:
        """Explain within cycles for a while, beginning with the next one, which looks at every job."""
        self._failed_until, self._due = self._monotonic() + _FAILED_SECONDS, 0.0

    def _takes_long(self, snapshot: Snapshot) -> bool:
        if self._took is not None:
            return self._took > self._least
        waiting = (key for key in snapshot.active if (job := snapshot.jobs.get(key)) is not None and job.pending)
        return sum(1 for _ in zip(range(_MANY), waiting, strict=False)) == _MANY

    def _may_copy(self, config: SchedulerConfig) -> bool:
        """Whether nothing but our own code would run in the copy, and there is memory for what it will change."""
        if self._monotonic() < self._failed_until:
            return False
        names = [plugin.name for plugin in config.plugins]
        return "extender" not in names and all(map(is_built_in, names)) and _has_memory()

    def _copy(self, run: Callable[[], Decisions]) -> None:
        assert self._copies is not None
        self.copying = True
        began = self._monotonic()

        def work() -> Explained:
            made = run()
            told = Decisions(**{name: getattr(made, name) for name in _SAID})
            bound = {f"{bind.namespace}/{bind.pod}" for bind in made.binds}
            evicted = {f"{eviction.namespace}/{eviction.pod}" for eviction in made.evictions}
            return Explained(told, _spent(made), bound, evicted)

        def done(explained: Explained | str) -> None:
            ended, self.copying = self._monotonic(), False
            if isinstance(explained, Explained):
                self._took = explained.seconds
                self._due = ended + min(ended - began, _LONGEST_SILENCE)  # half of a processor at most
                self.tell(explained)
            elif not self._closed:
                _log.warning("explanation.failed", error=explained)
                self.within_cycles()

        self._copy_at_work = self._copies(work, done)


def _spent(decisions: Decisions) -> float:
    return sum(decisions.seconds.get(stage, 0.0) for stage in ("explain", "close"))


def beside_cycles() -> Explanations:
    """Explanations that are worked out in copies of this process where they take long, and where there can be copies.

    A process with threads can be copied on Linux, whose C library holds its locks meanwhile.
    """
    return Explanations(time.monotonic, copies=in_copy if sys.platform == "linux" else None)


class Copy:
    """A copy of this process at work."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._reaping = threading.Lock()
        self._reaped = False

    def end(self) -> None:
        """Stop it, if it still works."""
        with self._reaping:  # after that its number may be another process's
            if not self._reaped:
                os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Wait for its end; its exit status, negative for a signal."""
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        with self._reaping:
            _, status = os.waitpid(self.pid, 0)
            self._reaped = True
        return os.waitstatus_to_exitcode(status)


def in_copy(work: Callable[[], Explained], done: Told) -> Copy:
    """Do ``work`` in a copy of this process; ``done`` is called with what it returns, in a thread of its own.

    The copy has this thread alone, no files but its end of a pipe, and ends after `_MOST_SECONDS`. ``work`` must only
    compute. Of one that fails, or is ended, it is told why it found nothing.
    """
    reading, writing = os.pipe()
    parent = os.getpid()
    with warnings.catch_warnings():
        # Python warns of locks that other threads hold: the copy takes none, and the C library frees its own.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        _be_copy(work, writing, parent)
    os.close(writing)
    copy = Copy(pid)
    threading.Thread(target=_follow, args=(copy, reading, done), name="explanation", daemon=True).start()
    return copy


def _be_copy(work: Callable[[], Explained], writing: int, parent: int) -> NoReturn:
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for each in (signal.SIGTERM, signal.SIGALRM):
            signal.signal(each, signal.SIG_DFL)
        signal.alarm(_MOST_SECONDS)
        resource.setrlimit(resource.RLIMIT_CPU, (_MOST_SECONDS, _MOST_SECONDS))
        os.nice(_NICENESS)
        os.closerange(3, writing)  # connections end when this process closes them, not when its copy does
        os.closerange(writing + 1, _highest_file() + 1)
        gc.disable()
        try:
            told: Any = work()
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
        with os.fdopen(writing, "wb") as out:
            if os.getppid() == parent:
                pickle.dump(told, out, protocol=pickle.HIGHEST_PROTOCOL)
        status = 0
    finally:
        os._exit(status)


def _highest_file() -> int:
    return max(int(path.name) for path in Path("/proc/self/fd").iterdir())


def _follow(copy: Copy, reading: int, done: Told) -> None:
    with os.fdopen(reading, "rb") as out:
        text = out.read()
    status = copy.wait()
    told = pickle.loads(text) if text and status == 0 else f"it ended with {status}"  # noqa: S301
    done(told)


def _has_memory() -> bool:
    """Whether half as much as this process holds is free, on the machine and in its control group."""
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        held = int(Path("/proc/self/statm").read_text().split()[1]) * page
        facts = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        free = int(facts["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return False
    group = Path("/sys/fs/cgroup")
    try:
        limit = (group / "memory.max").read_text().strip()
        if limit.isdigit():
            free = min(free, int(limit) - int((group / "memory.current").read_text()))
    except (OSError, ValueError):
        pass  # no limit is known
    return free >= held / 2
