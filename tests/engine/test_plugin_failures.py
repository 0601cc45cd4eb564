"""A plug-in that fails for one job: every hook, every kind of failure. Other jobs fare as if that job were absent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from plugin_faults import (
    FAULTS,
    GPU,
    ITS_QUEUE,
    NOTICES,
    SOUND,
    VICTIM,
    hostile,
    interrupts_are_handled,  # noqa: F401, a fixture
)

from support.build import START, bound_per_job, cluster, config, gang, group, node, nodes, pod, queue
from unisono.api.core import Toleration
from unisono.cluster.podclass import PodClass
from unisono.engine import run
from unisono.engine.answers import Veto
from unisono.engine.contract.plugin import HOOK_FLAGS, Plugin
from unisono.engine.decisions import Decisions
from unisono.engine.plugin_host.failure_policies import POLICIES, QUERIES, Fails
from unisono.engine.session.node_view import NodeView
from unisono.engine.verdict import Cause

NEVER_FOR_PLACEMENT = {"starving", "preemptive", "allowance", "removed", "protected", "retained", "shuffled", "victims"}
"""Hooks that refuse, but never a place on free resources."""


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
