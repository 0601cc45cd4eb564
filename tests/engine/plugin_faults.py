"""Plug-ins that fail for one job: the ways to fail, and a plug-in that does well but for that job."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from unisono.engine.answers import RawScore, Reason, Refusal, Scope, Veto, Vote
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugin_host.failure_policies import QUERIES

VICTIM, ITS_QUEUE, GPU = "ns/victim", "victims-queue", "example.com/victim"
KEYS = {"queue_key", "job_key", "task_key", "group_key", "victim_queue_key"}


def deep(level: int = 0) -> int:
    return deep(level + 1) + 1


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even that")


class Nasty:
    """Whatever is done with it fails."""

    def __lt__(self, other: object) -> bool:
        raise RuntimeError("no order")

    __gt__ = __lt__

    def __bool__(self) -> bool:
        raise RuntimeError("no truth")

    def __len__(self) -> int:
        raise RuntimeError("no length")


def lazily() -> Iterator[Any]:
    raise RuntimeError("later")
    yield


def throw(error: BaseException) -> Any:
    raise error


FAULTS: dict[str, Any] = {
    "raises": lambda: throw(RuntimeError("broken")),
    "recursion": deep,
    "memory": lambda: throw(MemoryError()),
    "exit": lambda: throw(SystemExit(3)),
    "interrupt": lambda: throw(KeyboardInterrupt()),
    "generator exit": lambda: throw(GeneratorExit()),
    "unprintable": lambda: throw(Unprintable()),
    "text": lambda: "yes",
    "nasty": Nasty,
    "lazy": lazily,
    "nan": lambda: float("nan"),
    "nan points": lambda: np.full(7, np.nan),
    "long mask": lambda: np.ones(99, dtype=np.bool_),
    "vetoes of a wrong type": lambda: [Veto([True], Reason("x"))],  # type: ignore[arg-type]
    "reason without a text": lambda: [Veto(np.ones(7, dtype=np.bool_), Reason(None))],  # type: ignore[arg-type]
    "endless scores": lambda: [RawScore(np.full(7, np.inf))],
    "refusal without a text": lambda: Refusal(None, "x", need=7),  # type: ignore[arg-type]
    "class": lambda: Nasty,
}
NOTICES = {"enqueued", "enqueued_alike", "placed", "removed", "moved"}
SOUND = {("text", "spared"), ("text", "answers_alike"), *((fault, hook) for fault in ("text",) for hook in KEYS)}
"""Answers that the contract allows after all."""
NEUTRAL: dict[str, Any] = {
    **dict.fromkeys(KEYS, 0),
    "enqueueable": Vote.ABSTAIN,
    "pipelined": Vote.ABSTAIN,
    "group_pipelined": Vote.ABSTAIN,
    **dict.fromkeys(("ready", "group_ready", "starving", "concerns", "self_affecting"), True),
    **dict.fromkeys(("filter_at", "is_pure", "by_domains"), False),
    **dict.fromkeys(("static_filter", "filter", "domain_filter", "static_score", "preparations", "relax"), ()),
    **dict.fromkeys(("admissible", "underused", "headroom"), 1000),
    **dict.fromkeys(("missing", "stamp", "lost_work"), 0),
}


def concerns_victim(plugin: Any, arguments: tuple[Any, ...]) -> bool:
    """Whether one of the arguments is the victim's, or its pods' class."""
    for each in arguments:
        several = each if isinstance(each, list | tuple) else [each]
        for one in several:
            owner = getattr(one, "job", None)
            names = (getattr(one, "key", ""), owner, getattr(owner, "key", ""), getattr(one, "name", ""))
            if VICTIM in names or ITS_QUEUE in names:
                return True
            if GPU in getattr(one, "requests", ()):
                return True
    return False


def hostile(hook: str, fault: str | None) -> tuple[type[Plugin], list[str]]:
    """A plug-in that does well but for the victim, and a list of when it did not; without a fault it always does."""
    hits: list[str] = []

    def method(self: Any, *arguments: Any, **_: Any) -> Any:
        if concerns_victim(self, arguments):
            hits.append(hook)
            if fault is not None:
                return FAULTS[fault]()
        if hook == "domain_points":
            return np.zeros(len(arguments[1]))
        return _willing(hook, arguments)

    hooks: dict[str, Any] = {hook: method}
    plain = {"filter_at": "filter", "score_at": "score", "line_score": "batch_score", "underused": "overused"}
    plain |= {"admissible": "enqueueable", "victim_jobs": "victims", "headroom": "allocatable"}
    plain |= {"retained": "shuffled", "spared": "allowance"}
    plain |= dict.fromkeys(QUERIES, "filter") | {"stamp": "domain_filter"}
    plain |= dict.fromkeys(("self_affecting", "by_domains"), "domain_filter")
    if hook in plain:
        other = plain[hook]
        # somebody is spared only where something keeps him from being evicted
        hooks[other] = lambda self, *arguments: 0 if other == "allowance" else _willing(other, arguments)
    if hook == "answers_alike":  # asked only of those that look at the job
        hooks["scope"] = Scope.JOB
    return type("Hostile", (Plugin,), {"name": "hostile", "by_shape": True, **hooks}), hits


def _willing(hook: str, arguments: tuple[Any, ...]) -> Any:
    """What a plug-in answers that lets everything happen."""
    if hook in ("victims", "victim_jobs"):
        return np.ones(len(arguments[2]), dtype=np.bool_)
    if hook == "shuffled":
        return np.ones(len(arguments[0]), dtype=np.bool_)
    return NEUTRAL.get(hook)


@pytest.fixture(autouse=True)
def interrupts_are_handled() -> Iterator[None]:
    """As in a server: Ctrl-C has a handler of its own, so one that a plug-in raises is the plug-in's."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    yield
    signal.signal(signal.SIGINT, before)
