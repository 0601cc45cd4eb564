"""A plug-in that fails for one job: every hook, every kind of failure. Other jobs fare as if that job were absent."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.build import START, bound_per_job, cluster, config, gang, group, node, nodes, pod, queue
from unisono.api.core import Toleration
from unisono.cluster.podclass import PodClass
from unisono.engine import run
from unisono.engine.answers import RawScore, Reason, Refusal, Veto, Vote
from unisono.engine.contract.plugin import Plugin
from unisono.engine.contract.switches import HOOK_FLAGS
from unisono.engine.decisions import Decisions
from unisono.engine.plugin_host.failure_policies import POLICIES, QUERIES, Fails
from unisono.engine.session.node_view import NodeView
from unisono.engine.verdict import Cause

VICTIM, ITS_QUEUE, GPU = "ns/victim", "victims-queue", "example.com/victim"
PREEMPTABLE = {"volcano.sh/preemptable": "true"}
KEYS = {"queue_key", "job_key", "task_key", "group_key", "victim_queue_key"}
NEVER_FOR_PLACEMENT = {"starving", "preemptive", "allowance", "removed", "protected", "retained", "shuffled", "victims"}
"""Hooks that refuse, but never a place on free resources."""


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
    "short mask": lambda: np.ones(1, dtype=np.bool_),
    "vetoes of a wrong type": lambda: [Veto([True], Reason("x"))],  # type: ignore[arg-type]
    "reason without a text": lambda: [Veto(np.ones(7, dtype=np.bool_), Reason(None))],  # type: ignore[arg-type]
    "endless scores": lambda: [RawScore(np.full(7, np.inf))],
    "refusal without a text": lambda: Refusal(None, "x", need=7),  # type: ignore[arg-type]
    "class": lambda: Nasty,
}
NOTICES = {"enqueued", "enqueued_alike", "placed", "removed", "moved"}
SOUND = {("text", "spared"), *((fault, hook) for fault in ("text",) for hook in KEYS)}
"""Answers that the contract allows after all."""
NEUTRAL: dict[str, Any] = {
    **dict.fromkeys(KEYS, 0),
    "enqueueable": Vote.ABSTAIN,
    "pipelined": Vote.ABSTAIN,
    "group_pipelined": Vote.ABSTAIN,
    **dict.fromkeys(("ready", "group_ready", "starving", "concerns", "self_affecting"), True),
    **dict.fromkeys(("filter_at", "is_pure", "by_domains"), False),
    **dict.fromkeys(("static_filter", "filter", "domain_filter", "static_score", "preparations"), ()),
    **dict.fromkeys(("admissible", "underused", "headroom"), 1000),
    **dict.fromkeys(("missing", "stamp"), 0),
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


def hostile(hook: str, fault: str) -> tuple[type[Plugin], list[str]]:
    """A plug-in that does well but for the victim, and a list of when it did not."""
    hits: list[str] = []

    def method(self: Any, *arguments: Any, **_: Any) -> Any:
        if concerns_victim(self, arguments):
            hits.append(hook)
            return FAULTS[fault]()
        if hook == "domain_points":
            return np.zeros(len(arguments[1]))
        if hook in ("victims",):
            return np.ones(len(arguments[2]), dtype=np.bool_)
        return NEUTRAL.get(hook)

    hooks: dict[str, Any] = {hook: method}
    plain = {"filter_at": "filter", "score_at": "score", "line_score": "batch_score", "underused": "overused"}
    plain |= {"admissible": "enqueueable", "victim_jobs": "victims", "headroom": "allocatable"}
    plain |= dict.fromkeys(QUERIES, "filter") | {"stamp": "domain_filter"}
    plain |= dict.fromkeys(("self_affecting", "by_domains"), "domain_filter")
    if hook in plain:
        other = plain[hook]
        hooks[other] = lambda self, *arguments: (
            np.ones(len(arguments[2]), dtype=np.bool_) if other == "victims" else NEUTRAL.get(other)
        )
    return type("Hostile", (Plugin,), {"name": "hostile", **hooks}), hits


def things(*, victim: bool) -> list[Any]:
    """Two users' jobs, one of which needs room that must be made; the victim has a node of its own."""
    tolerated = [Toleration(key="victim", operator="Exists")]
    mine: dict[str, Any] = {"queue": ITS_QUEUE, "selector": {"of": "victim"}, "tolerations": tolerated}
    found = [
        nodes(3, cpu=4),
        node("full", cpu=2, taints=[("full", "", "NoSchedule")]),
        node(
            "theirs", cpu=8, labels={"of": "victim"}, taints=[("victim", "", "NoSchedule")], **{"example.com/victim": 8}
        ),
        queue(ITS_QUEUE),
        gang("a", 2, phase="Pending", min_resources=True),
        gang("b", 3, created=1),
        gang("c", 1, created=2, cpu=3),
        gang("large", 40, created=3),
        group("low", 1, phase="Running"),
        *(
            pod(f"low-{at}", "low", node="full", cpu=1, annotations={"volcano.sh/preemptable": "true"})
            for at in range(2)
        ),
        gang(
            "urgent",
            1,
            created=4,
            priority=100,
            cpu=2,
            tolerations=[Toleration(key="full", operator="Exists")],
            selector={"kubernetes.io/hostname": "full"},
        ),
    ]
    if victim:
        found.append(gang("victim", 2, phase="Pending", min_resources=True, **{GPU: 1}, **mine))
    return found


def outcome(decisions: Decisions) -> Any:
    """What was decided about everybody but the victim."""
    return (
        sorted((bind.job, bind.pod, bind.node) for bind in decisions.binds if bind.job != VICTIM),
        sorted((one.pod, one.beneficiary) for one in decisions.evictions if one.beneficiary != VICTIM),
        {key: (verdict.cause, verdict.message) for key, verdict in decisions.verdicts.items() if key != VICTIM},
    )


@pytest.fixture(autouse=True)
def _interrupts_are_handled() -> Iterator[None]:
    """As in a server: Ctrl-C has a handler of its own, so one that a plug-in raises is the plug-in's."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    yield
    signal.signal(signal.SIGINT, before)


ACTIONS = "enqueue, allocate, preempt, shuffle, backfill"
SETTINGS = config(
    ("hostile", "gang", "priority"),
    ("predicates", "nodeorder"),
    actions="enqueue, allocate, preempt, shuffle, backfill",
)
_SNAPSHOTS = {victim: cluster(things(victim=victim)).snapshot() for victim in (True, False)}


def decide(plugin: type[Plugin], *, victim: bool = True) -> Decisions:
    return run(_SNAPSHOTS[victim], SETTINGS, START + 1000.0, plugins={"hostile": plugin}, advice=False)


PLAIN_HOOKS = [hook for hook in POLICIES if not hook.startswith(("group_", "domain_g", "domain_p"))]
_ALONE: dict[str, Any] = {}


def alone(hook: str) -> Any:
    """The outcome without the victim, with the same plug-in."""
    if hook not in _ALONE:
        plugin, _ = hostile(hook, "raises")
        _ALONE[hook] = outcome(decide(plugin, victim=False))
    return _ALONE[hook]


@pytest.mark.parametrize("hook", PLAIN_HOOKS)
def test_a_hook_that_fails_for_one_job_changes_nothing_for_others(hook: str) -> None:
    for fault in FAULTS:
        if hook in NOTICES and fault not in list(FAULTS)[:7]:
            continue
        plugin, hits = hostile(hook, fault)
        decisions = decide(plugin)
        assert outcome(decisions) == alone(hook), fault
        if not hits or (fault, hook) in SOUND:
            continue
        told = [failure for failure in decisions.plugin_failures if failure.hook == hook]
        assert told or hook in ("filter_at", "score_at"), fault
        assert all(failure.error for failure in told)
        bound = bound_per_job(decisions).get("victim", 0)
        if POLICIES[hook].fails is Fails.CLOSED and hook not in NEVER_FOR_PLACEMENT:
            assert bound == 0, fault
            verdict = decisions.verdicts[VICTIM]
            assert verdict.cause is Cause.PLUGIN_FAILED, fault
            assert f"plug-in hostile failed in {hook} for job {VICTIM}: " in verdict.message
            assert VICTIM in decisions.failed_jobs
        else:
            assert bound == 2, fault


def test_every_hook_that_places_is_asked_about_the_victim() -> None:
    """The property above would say nothing about a hook that is never asked."""
    asked = set()
    for hook in PLAIN_HOOKS:
        plugin, hits = hostile(hook, "raises")
        decide(plugin)
        asked |= set(hits)
    silent = {hook for hook in PLAIN_HOOKS if hook not in asked}
    assert silent <= {
        *("starving", "preemptive", "removed", "preparations", "line_score", "victim_queue_key"),
        *(
            "admissible",
            "underused",
            "pipelined",
            "lost_work",
            "spared",
            "victims",
            "victim_jobs",
            "protected",
            "retained",
            "shuffled",
            "allowance",
        ),
    }


def test_the_documentation_has_the_policy_of_every_hook() -> None:
    text = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text()
    table = text.partition("<!-- failures -->\n")[2].partition("\n<!-- /failures -->")[0]
    rows = [f"| `{hook}` | {one.fails.value} | {one.about.value} |" for hook, one in POLICIES.items()]
    assert table.splitlines() == ["| hook | fails | for |", "|---|---|---|", *rows]


def test_there_is_a_policy_for_every_hook() -> None:
    assert set(POLICIES) == {*HOOK_FLAGS, *QUERIES}


def test_what_is_handed_in_cannot_be_changed() -> None:
    class Vandal(Plugin):
        name = "hostile"

        def filter(self, pod_class: PodClass, nodes: NodeView) -> tuple[Veto, ...]:
            nodes.used[:] = 0
            return ()

    decisions = decide(Vandal)
    assert not decisions.binds
    assert {failure.error for failure in decisions.plugin_failures} == {
        "ValueError: assignment destination is read-only"
    }
