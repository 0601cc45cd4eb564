"""How things are measured, and what a row of the table is.

Times are seconds of CPU of the thread that decides. The engine uses no other one, so on an idle machine that is the
time that passes. Others on the same processor still slow it down: see `pace`.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.clusters import START
from unisono.cluster.state import ClusterState
from unisono.engine import run
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import default_config
from unisono.engine.decisions import Decisions
from unisono.gc_pauses import collector_paused


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement; ``value`` in ``unit``, ``wanted`` the goal, ``better`` says which way is good.

    ``volcano`` is what Volcano's own scheduler reaches on the same shape, in memory, on a 2-core machine of this kind.
    """

    name: str
    value: float
    unit: str
    wanted: float | None = None
    better: str = "more"
    note: str = ""
    volcano: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without a goal."""
        if self.wanted is None:
            return None
        return self.value >= self.wanted if self.better == "more" else self.value <= self.wanted

    @property
    def ratio(self) -> float | None:
        """How many times Volcano's number."""
        return self.value / self.volcano if self.volcano else None


@dataclass(frozen=True, slots=True)
class Case:
    """A cluster whose one cycle is measured, with the default configuration if none is given."""

    name: str
    state: ClusterState
    config: SchedulerConfig | None = None


def clock() -> float:
    """CPU seconds of this thread."""
    return time.thread_time()


def pace() -> float:
    """Milliseconds that a million rounds of a plain loop take here and now, at best; about 75 on a quiet machine."""

    def loop() -> int:
        total = 0
        for index in range(1_000_000):
            total += index * index % 7
        return total

    return timed(loop) * 1000


def timed(action: Callable[[], object], rounds: int = 5) -> float:
    """Seconds of the fastest of some runs."""
    best = float("inf")
    for _ in range(rounds):
        start = clock()
        action()
        best = min(best, clock() - start)
    return best


def decide(state: ClusterState, rounds: int = 3, config: SchedulerConfig | None = None) -> tuple[float, Decisions]:
    """Seconds of the fastest of some cold cycles (nothing kept from earlier ones), and the decisions."""
    best = float("inf")
    decisions = Decisions()
    settings = config or default_config()
    for _ in range(rounds):
        state.memo.clear()
        snapshot = state.snapshot()
        gc.collect()
        gc.freeze()  # what a long-lived scheduler does once: the state is no garbage
        start = clock()
        with collector_paused():
            decisions = run(snapshot, settings, START + 1e6)
        best = min(best, clock() - start)
        gc.unfreeze()
    return best, decisions


def placed(case: Case, rounds: int = 3, **given: float) -> Row:
    """Pods bound per second of one cycle."""
    seconds, decisions = decide(case.state, rounds, case.config)
    number = len(decisions.binds)
    note = f"{number:,} placed in {seconds:.3f} s"
    if decisions.violations:
        note += f"; {len(decisions.violations)} violations"
    wanted, volcano = given.get("wanted") or None, given.get("volcano") or None
    return Row(case.name, number / seconds, "pods/s", wanted, "more", note, volcano)
