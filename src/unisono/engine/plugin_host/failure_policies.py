"""What happens when a hook of a plug-in fails: one row per hook.

A hook that may refuse fails closed: it refuses what it was asked about, and nothing else. A hook that only ranks fails
open: it has no opinion on it. A shortcut that fails is not used; the hook that it stands for is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import numpy as np

from unisono.engine.answers import Failure, Reason, Refusal, Veto, Vote
from unisono.engine.plugin_host import answer_checks as checks
from unisono.engine.plugin_host.answer_checks import LAST, Arguments, Check

_LONGEST = 200
"""Characters of an error's text."""


class Fails(Enum):
    """How a hook fails."""

    CLOSED = "closed"
    """It refuses what it was asked about."""
    OPEN = "open"
    """It has no opinion on what it was asked about."""
    SHORTCUT = "shortcut"
    """It is not used for what it was asked about; the plain hook is asked."""


class About(Enum):
    """What a hook is asked about, and so what pays for its failure."""

    JOB = "job"
    QUEUE = "queue"
    SHARE = "queue and pods"
    TASK = "pod"
    PODS = "pods"
    """A pod class, with the queue or the job where the plug-in's scope says so."""
    GROUP = "sub-group"
    TASKS = "pods together"
    PLACEMENT = "placement"
    CANDIDATES = "victims"
    """Every candidate for itself."""


def told(error: BaseException) -> str:
    """An error in one short line, even where its own text cannot be had."""
    try:
        text = " ".join(str(error).split())
    except BaseException:
        text = ""
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
    kind = type(error).__name__
    if isinstance(error, checks.BadAnswer):
        return text
    return f"{kind}: {text}" if text else kind


class AskPlain(Exception):
    """A shortcut cannot be used: the plain hook is to be asked."""


Instead = Callable[[Failure, Arguments], Any]


def _always(answer: Any) -> Instead:
    return lambda failure, arguments: answer


def _refuse(failure: Failure, arguments: Arguments) -> Refusal:
    return failure.refusal()


def _no_node(failure: Failure, arguments: Arguments) -> tuple[Veto, ...]:
    return (Veto(np.ones(arguments[1].size, dtype=np.bool_), failure.reason()),)


def _reason(failure: Failure, arguments: Arguments) -> Reason:
    return failure.reason()


def _mask(position: int, *, value: bool) -> Instead:
    return lambda failure, arguments: np.full(len(arguments[position]), value, dtype=np.bool_)


def _plainly(failure: Failure, arguments: Arguments) -> Any:
    raise AskPlain


@dataclass(frozen=True, slots=True)
class Policy:
    """The row of one hook.

    Attributes:
        fails, about: see there.
        check: of its answer.
        instead: the answer in place of the one that failed.
        neutral: the answer that has no effect: for a plug-in that may be ignored.
        everywhere: the check is made for plug-ins that are built in, too: the hook answers with arrays.
        candidates: position of the argument that lists tasks, of which each is judged by itself.
    """

    fails: Fails
    about: About
    check: Check
    instead: Instead
    neutral: Any = None
    everywhere: bool = False
    candidates: int = -1


def _closed(about: About, check: Check, instead: Instead, neutral: Any = None, **more: Any) -> Policy:
    return Policy(Fails.CLOSED, about, check, instead, neutral, **more)


def _open(about: About, check: Check, answer: Any = None, **more: Any) -> Policy:
    return Policy(Fails.OPEN, about, check, _always(answer), answer, **more)


def _shortcut(about: About, check: Check, instead: Instead, neutral: Any = None) -> Policy:
    return Policy(Fails.SHORTCUT, about, check, instead, neutral)


_REFUSAL = checks.maybe(checks.refusal)
_MASK_0 = checks.maybe(checks.mask_of(0))
_VETOES: Final[Mapping[str, Any]] = {"neutral": (), "everywhere": True}
_NO_LIMIT = 2**62

POLICIES: Final[Mapping[str, Policy]] = {
    # orders
    "queue_key": _open(About.QUEUE, checks.key, LAST),
    "job_key": _open(About.JOB, checks.key, LAST),
    "task_key": _open(About.TASK, checks.key, LAST),
    "group_key": _open(About.GROUP, checks.key, LAST),
    "victim_queue_key": _open(About.QUEUE, checks.key, LAST),
    # gates and states
    "enqueueable": _closed(About.JOB, checks.vote, _refuse, Vote.ABSTAIN),
    "enqueued": _closed(About.JOB, checks.nothing, _always(None)),
    "enqueued_alike": _open(About.JOB, checks.nothing),
    "admissible": _shortcut(About.JOB, checks.whole, _always(0), 0),
    "pipelined": _closed(About.JOB, checks.vote, _refuse, Vote.ABSTAIN),
    "valid": _closed(About.JOB, _REFUSAL, _refuse),
    "ready": _closed(About.JOB, checks.flag, _always(False), True),
    "missing": _shortcut(About.JOB, checks.whole, _always(0), 0),
    "starving": _closed(About.JOB, checks.flag, _always(False), True),
    # quotas
    "overused": _closed(About.QUEUE, _REFUSAL, _refuse),
    "underused": _shortcut(About.SHARE, checks.whole, _always(-1), _NO_LIMIT),
    "allocatable": _closed(About.SHARE, _REFUSAL, _refuse),
    "headroom": _closed(About.SHARE, checks.whole, _always(0), _NO_LIMIT),
    "preemptive": _closed(About.SHARE, _REFUSAL, _refuse),
    # nodes
    "prefilter": _closed(About.TASK, checks.maybe(checks.reason), _reason),
    "static_filter": _closed(About.PODS, checks.vetoes, _no_node, **_VETOES),
    "filter": _closed(About.PODS, checks.vetoes, _no_node, **_VETOES),
    "domain_filter": _closed(About.PODS, checks.vetoes, _no_node, **_VETOES),
    "relax": _open(About.PODS, checks.relaxations, ()),
    "filter_at": _shortcut(About.PODS, checks.flag, _plainly, neutral=False),
    "static_score": _open(About.PODS, checks.raw_scores, (), everywhere=True),
    "score": _open(About.PODS, checks.maybe(checks.node_points)),
    "score_at": _shortcut(About.PODS, checks.maybe(checks.number), _plainly),
    "batch_score": _open(About.PODS, checks.maybe(checks.node_points), everywhere=True),
    "line_score": _shortcut(About.PODS, checks.maybe(checks.lines), _always(None)),
    # victims
    "victims": _closed(
        About.CANDIDATES, checks.maybe(checks.mask_of(2)), _mask(2, value=False), everywhere=True, candidates=2
    ),
    "protected": _closed(About.CANDIDATES, _MASK_0, _mask(0, value=True), everywhere=True, candidates=0),
    "retained": _closed(About.CANDIDATES, _MASK_0, _mask(0, value=True), everywhere=True, candidates=0),
    "shuffled": _closed(About.CANDIDATES, _MASK_0, _mask(0, value=False), everywhere=True, candidates=0),
    "allowance": _closed(About.QUEUE, checks.maybe(checks.whole), _always(0)),
    "spared": _open(About.TASKS, checks.maybe(checks.text)),
    "lost_work": _open(About.TASKS, checks.maybe(checks.number)),
    "victim_jobs": _shortcut(About.JOB, checks.maybe(checks.mask_of(2)), _always(None)),
    # topology
    "group_ready": _closed(About.GROUP, checks.flag, _always(False), True),
    "group_pipelined": _closed(About.GROUP, checks.vote, _refuse, Vote.ABSTAIN),
    "domain_gradients": _closed(About.JOB, checks.maybe(checks.gradients), _always(())),
    "domain_points": _open(About.GROUP, checks.points_of(1), 0.0, everywhere=True),
    "group_score": _open(About.GROUP, checks.maybe(checks.points_of(1)), everywhere=True),
    # notices, and what goes with a bind
    "placed": _closed(About.PLACEMENT, checks.nothing, _always(None)),
    "removed": _closed(About.PLACEMENT, checks.nothing, _always(None)),
    "moved": _closed(About.PLACEMENT, checks.nothing, _always(None)),
    "annotations": _closed(About.TASK, checks.maybe(checks.notes), _always(None)),
    "preparations": _closed(About.TASK, checks.preparations, _always(()), ()),
    # what a plug-in says of itself
    "concerns": _shortcut(About.PODS, checks.flag, _always(True), False),
    "is_pure": _shortcut(About.PODS, checks.flag, _always(False), True),
    "answers_alike": _shortcut(About.PODS, checks.maybe(checks.text), _always(None)),
    "stamp": _shortcut(About.PODS, checks.maybe(checks.whole), _always(-1)),
    "self_affecting": _shortcut(About.PODS, checks.flag, _always(True), False),
    "by_domains": _shortcut(About.PODS, checks.flag, _always(False), True),
}
"""Hook to what happens when it fails."""

QUERIES: Final = ("concerns", "is_pure", "answers_alike", "stamp", "self_affecting", "by_domains")
"""What a plug-in says of itself; not switched, and asked of every plug-in."""

OUT: Final = frozenset(("enqueued", "placed", "removed", "moved", "annotations", "preparations"))
"""Hooks that cannot refuse by an answer: the job they fail for is not admitted or placed in this cycle."""
