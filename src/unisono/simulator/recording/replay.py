"""Repeats the cycles of a recorded scheduler and compares what is decided.

Cycle by cycle the state is as the recorded scheduler had it, whatever the repetition decides. With the same
configuration the decisions are the same; with another one the differences are what it would have done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from unisono import engine
from unisono.engine.config.model import SchedulerConfig
from unisono.gc_pauses import collector_paused
from unisono.simulator.files import InputError
from unisono.simulator.recording.lines import Recording

MOST_DIFFERENCES = 1000


@dataclass(frozen=True, slots=True)
class Difference:
    """A pod that one of the two cycles bound or evicted otherwise than the other.

    Attributes:
        cycle: number of the cycle, from 0; ``now`` its time, seconds since the epoch.
        what: ``bind`` or ``eviction``.
        pod: ``namespace/name``.
        recorded, repeated: the node or the beneficiary; None where the pod was left alone.

    """

    cycle: int
    now: float
    what: str
    pod: str
    recorded: str | None
    repeated: str | None


@dataclass(slots=True)
class Replayed:
    """What the repetition found.

    Attributes:
        cycles: cycles compared.
        binds, evictions: that were recorded.
        same_binds, same_evictions: of those, how many came again.
        differences: the first so many.
        different: how many there are.
        more: binds and evictions that came only in the repetition.

    """

    cycles: int = 0
    binds: int = 0
    evictions: int = 0
    same_binds: int = 0
    same_evictions: int = 0
    different: int = 0
    more: int = 0
    differences: list[Difference] = field(default_factory=list)


def replay(
    path: Path,
    config: SchedulerConfig | None = None,
    seed: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Replayed:
    """Repeat all cycles of a recording.

    Args:
        path: of the recording.
        config: instead of the recorded one.
        seed: instead of the recorded one.
        progress: is told after each cycle how many there were.

    Raises:
        RecordingError: a line cannot be understood.
        InputError: the configuration asks a service, which is not there any more.

    """
    recording, found = Recording(path), Replayed()
    for cycle in recording.cycles():
        used = config or cycle.config
        _check(used, path)
        if cycle.decided is None:
            break
        with collector_paused():
            snapshot = recording.state.snapshot()
            decisions = engine.run(snapshot, used, cycle.now, cycle.seed if seed is None else seed, verdicts=False)
        recorded = {f"{namespace}/{pod}": node for namespace, pod, _, node in cycle.decided.binds}
        repeated = {f"{bind.namespace}/{bind.pod}": bind.node for bind in decisions.binds}
        found.binds += len(recorded)
        found.same_binds += _compare(found, cycle.number, cycle.now, "bind", recorded, repeated)
        recorded = {f"{namespace}/{pod}": to for namespace, pod, _, to in cycle.decided.evictions}
        repeated = {f"{one.namespace}/{one.pod}": one.beneficiary for one in decisions.evictions}
        found.evictions += len(recorded)
        found.same_evictions += _compare(found, cycle.number, cycle.now, "eviction", recorded, repeated)
        found.cycles += 1
        if progress is not None:
            progress(found.cycles)
    return found


def _check(config: SchedulerConfig, path: Path) -> None:
    if any(plugin.name == "extender" for plugin in config.plugins):
        raise InputError(
            f"{path}: the configuration has the plug-in extender, whose service cannot be asked again: give a --config "
            "without it"
        )


def _compare(
    found: Replayed, cycle: int, now: float, what: str, recorded: dict[str, str], repeated: dict[str, str]
) -> int:
    same = 0
    for pod in sorted({*recorded, *repeated}):
        one, other = recorded.get(pod), repeated.get(pod)
        if one == other:
            same += 1
            continue
        found.different += 1
        found.more += one is None
        if len(found.differences) < MOST_DIFFERENCES:
            found.differences.append(Difference(cycle, now, what, pod, one, other))
    return same


def as_json(found: Replayed) -> dict[str, object]:
    """The result for programs; docs/simulator.md gives its form."""
    return {
        "unisono": "replay",
        "version": 1,
        "cycles": found.cycles,
        "binds": found.binds,
        "sameBinds": found.same_binds,
        "evictions": found.evictions,
        "sameEvictions": found.same_evictions,
        "different": found.different,
        "differences": [
            {
                "cycle": each.cycle,
                "what": each.what,
                "pod": each.pod,
                "recorded": each.recorded,
                "repeated": each.repeated,
            }
            for each in found.differences
        ],
    }
