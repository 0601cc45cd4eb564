"""When cycles explain; their verdicts: the latest per PodGroup in memory, and as JSON in an annotation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from msgspec import structs

from unisono.api import verdict as wire
from unisono.cluster.snapshot import Snapshot
from unisono.engine.changes import Change
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.decisions import Decisions
from unisono.engine.verdict import Verdict

_PARTS: Final = 8
_MAX_TEXT = 1000
_MAX_ENTRIES = 12
_MAX_HOLDERS = 5
_MAX_PODS = 16


def on_wire(verdict: Verdict) -> wire.Verdict:
    """The verdict as clients see it: long texts and lists cut, each change with its class name as ``kind``."""
    changes = [_change(change) for change in verdict.changes]
    changes += [{**_change(change), "tried": False} for change in verdict.untried]
    cut = len(verdict.would_run_after) > _MAX_PODS
    return wire.Verdict(
        job=verdict.job,
        cause=verdict.cause.value,
        message=_cut(verdict.message),
        need=dict(verdict.need),
        have=dict(verdict.have),
        tasks_placeable=verdict.tasks_placeable,
        tasks_needed=verdict.tasks_needed,
        reasons=_largest(verdict.reasons),
        nodes=verdict.nodes,
        holders=tuple(
            wire.Holder(holder.kind, holder.name, dict(holder.amounts)) for holder in verdict.holders[:_MAX_HOLDERS]
        ),
        suggestion=_cut(verdict.suggestion),
        change=changes[0] if changes else {},
        otherwise=tuple(changes[1:]),
        candidates=tuple(map(_change, verdict.candidates)),
        position=verdict.position,
        ahead=verdict.ahead[:_MAX_HOLDERS],
        would_run_after=verdict.would_run_after[:_MAX_PODS],
        would_run_after_count=len(verdict.would_run_after) if cut else 0,
        spared=_cut(verdict.spared),
        plugins_off=verdict.plugins_off[:_MAX_ENTRIES],
        task=verdict.task,
        queue=verdict.queue,
    )


def render(verdict: Verdict) -> str:
    """The annotation's text for one verdict; see `unisono.api.verdict.encode`."""
    return wire.encode(on_wire(verdict))


def material(text: str | None) -> tuple[Any, ...]:
    """What of a published verdict counts as a change that must be shown at once; numbers may change without it."""
    if not text:
        return ()
    found = wire.decode(text)
    # An annotation with another text is replaced.
    return ("unreadable",) if found is None else found.key


class ExplainingShare:
    """When a cycle may explain: explanations take at most one part of the scheduler's time in `_PARTS`.

    Where thousands of jobs wait, it takes many times as long to say why as to decide who starts. So cycles that only
    decide stand between those that explain as well; on a small cluster every cycle explains.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """``monotonic``: seconds that only grow."""
        self._monotonic = monotonic
        self._due = 0.0

    def decide(
        self, run: Callable[..., Decisions], snapshot: Snapshot, config: SchedulerConfig, now: float, seed: int
    ) -> Decisions:
        """Run a cycle with or without explanations; one without them asks for another one when they are due."""
        rests = self._due - self._monotonic()
        decisions = run(snapshot, config, now, seed, verdicts=rests <= 0)
        if decisions.explained:
            spent = sum(decisions.seconds.get(stage, 0.0) for stage in ("explain", "close"))
            self._due = self._monotonic() + (_PARTS - 1) * spent
        else:
            again_at = now + rests
            decisions.again_at = again_at if decisions.again_at is None else min(decisions.again_at, again_at)
        return decisions


class VerdictBook:
    """Latest verdict of every job that waits."""

    def __init__(self) -> None:
        self._verdicts: dict[str, Verdict] = {}

    def replace(self, verdicts: Mapping[str, Verdict]) -> None:
        """Take over the verdicts of a cycle; jobs without one do not wait any more."""
        self._verdicts = dict(verdicts)

    def started(self, jobs: Iterable[str]) -> None:
        """These jobs do not wait any more, as a cycle found that explained nothing."""
        for job in jobs:
            self._verdicts.pop(job, None)

    def get(self, job: str) -> Verdict | None:
        """Verdict of a PodGroup (``namespace/name``)."""
        return self._verdicts.get(job)

    def text(self, job: str) -> str | None:
        """The annotation's value for a PodGroup, None when it does not wait."""
        verdict = self._verdicts.get(job)
        return None if verdict is None else render(verdict)

    def jobs(self) -> list[str]:
        """Keys of the jobs that wait."""
        return list(self._verdicts)

    def __len__(self) -> int:
        """Number of jobs that wait."""
        return len(self._verdicts)


def _change(change: Change) -> dict[str, Any]:
    """``{"kind": "AddNodes", "like": "n1", "count": 2}``; combined ones have theirs in ``changes``."""
    fields = {one.name: _plain(getattr(change, one.name)) for one in structs.fields(change)}
    return {"kind": type(change).__name__} | fields


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return [one if isinstance(one, str) else _change(one) for one in value]
    return value


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 3] + "..."


def _largest(reasons: Mapping[str, int]) -> dict[str, int]:
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return dict(ordered[:_MAX_ENTRIES])
