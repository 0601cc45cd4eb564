"""Hooks that only some clusters ask: evictions, admission, sub-groups and volumes. Each is asked, and each may fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
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
from topology_world import hyper, policy, racks, spine, wish
from topology_world import job as grouped

from support.build import (
    START,
    bound_per_job,
    cluster,
    config,
    flatten,
    gang,
    group,
    node,
    nodes,
    pod,
    priority_class,
    queue,
)
from unisono.api import kinds
from unisono.api.core import PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Toleration, Volume
from unisono.api.groups.topology import HyperNode
from unisono.cluster.snapshot import Snapshot
from unisono.engine import run
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.decisions import Decisions
from unisono.engine.plugin_host.failure_policies import POLICIES, Fails

ONLY_THEIRS: dict[str, Any] = {
    "selector": {"of": "victim"},
    "tolerations": [Toleration(key="victim", operator="Exists")],
}
HIGH: dict[str, Any] = {"queue": ITS_QUEUE, "priority": 100, "priority_class": "high", GPU: 1}
LEAVES = {"volcano.sh/preemptable": "true"}


def theirs(*, gpus: int) -> list[Any]:
    """The node and the queue of the job that plug-ins fail for."""
    taint = ("victim", "", "NoSchedule")
    return [
        node("theirs", cpu=8, labels={"of": "victim"}, taints=[taint], **{GPU: gpus}),
        queue(ITS_QUEUE, reclaimable=True),
        priority_class("high", 100),
    ]


def running(name: str, number: int, *, on: str = "theirs", in_queue: str = ITS_QUEUE, **options: Any) -> list[Any]:
    """A job of low priority whose pods may be evicted."""
    pods = [
        pod(f"{name}-{at}", name, node=on, priority=1, annotations=LEAVES, **({"cpu": 1} | options))
        for at in range(number)
    ]
    return [group(name, 0, phase="Running", queue=in_queue), *pods]


def bystanders() -> list[Any]:
    """Another user's jobs: one is placed, and one needs room that must be made."""
    full = [("full", "", "NoSchedule")]
    tolerated = [Toleration(key="full", operator="Exists")]
    return [
        nodes(2, cpu=4),
        node("full", cpu=2, taints=full, labels={"of": "others"}),
        gang("a", 2, phase="Pending", min_resources=True),
        running("low", 2, on="full", in_queue="default"),
        gang("urgent", 1, created=4, priority=100, cpu=2, tolerations=tolerated, selector={"of": "others"}),
    ]


def taker(size: int = 1, **options: Any) -> list[Any]:
    """The job that plug-ins fail for, of high priority."""
    return gang(
        "victim",
        size,
        **{**HIGH, **ONLY_THEIRS, **options},
    )


def preempting() -> list[Any]:
    return [theirs(gpus=2), running("holder", 2, **{GPU: 1}), taker()]


def reclaiming() -> list[Any]:
    others = [running(name, 2, in_queue=name, **{GPU: 1}) for name in ("rich", "wealthy")]
    return [theirs(gpus=4), queue("rich"), queue("wealthy"), others, taker()]


def losing() -> list[Any]:
    """Here it is the job that plug-ins fail for whose pods would go."""
    wanting = gang("wanting", 1, **{**HIGH, **ONLY_THEIRS})
    return [theirs(gpus=2), running("victim", 2, **{GPU: 1}), wanting]


def giving_up() -> list[Any]:
    """Only a part of the gang finds room: its placements are taken back."""
    return [theirs(gpus=2), taker(3)]


def refused() -> list[Any]:
    """No filter lets the gang in, so that plug-ins are asked what would."""
    return [theirs(gpus=2), taker(1, selector={"of": "nobody"})]


def admitted() -> list[Any]:
    return [theirs(gpus=8), taker(2, phase="Pending", min_resources=True)]


def alike() -> list[Any]:
    twin: dict[str, Any] = {**HIGH, **ONLY_THEIRS}
    return [theirs(gpus=8), taker(2), gang("twin", 2, created=1, **twin)]


def with_volume() -> list[Any]:
    claim = msgspec.convert(
        {
            "metadata": {"name": "data", "namespace": "ns", "uid": "uid-data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        },
        PersistentVolumeClaim,
    )
    head, worker = taker()
    worker.spec.volumes = [
        Volume(name="data", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name="data"))
    ]
    return [theirs(gpus=8), claim, head, worker]


def in_domains(*, held: bool = False) -> list[Any]:
    """Two sub-groups of two pods, each below one switch; another such job has racks of its own.

    Where the nodes are ``held``, pods that are being deleted have to end first.
    """
    mine: dict[str, Any] = {"selector": {"of": "victim"}}
    parts = grouped("victim", 4, wish(2), policies=[policy(2, 1, minimum=2)], parts=2, **mine, **{GPU: 1})
    parts[0].spec.queue = ITS_QUEUE
    switches = {"v0": ["v0-0", "v0-1"], "v1": ["v1-0", "v1-1"]}
    names = [name for members in switches.values() for name in members]
    own: list[Any] = [node(name, cpu=4, labels={"of": "victim"}, **{GPU: 1}) for name in names]
    if held:
        own.append(group("ending", 0, phase="Running"))
        own += [pod(f"ending-{name}", "ending", node=name, cpu=4, deleting=True, **{GPU: 1}) for name in names]
    domains = [hyper(name, 1, members) for name, members in switches.items()]
    part = grouped("part", 4, wish(2), policies=[policy(2, 1)], parts=2)
    others = [racks({"a": 2, "b": 2}), spine("s", "a", "b"), part]
    return [own, domains, spine("t", "v0", "v1"), queue(ITS_QUEUE), parts, others]


@dataclass(frozen=True)
class World:
    """A cluster in which the engine asks some hooks.

    Attributes:
        make: the objects of the job that plug-ins fail for; everybody else's come on top.
        hooks: those that are asked.
        actions: of the configuration.
        tiers: plug-ins; the failing one is ``hostile``.
        binds, evictions: of the job, or in favour of it, when nothing fails.
        advice: let verdicts try changes.

    """

    make: Callable[[], list[Any]]
    hooks: tuple[str, ...]
    actions: str = "enqueue, allocate, preempt"
    tiers: tuple[tuple[str, ...], ...] = (("hostile", "priority"), ("gang", "predicates", "nodeorder"))
    binds: int = 0
    evictions: int = 0
    advice: bool = False

    def snapshot(self) -> Snapshot:
        """Of all objects."""
        special = {HyperNode: kinds.HYPER_NODES, PersistentVolumeClaim: kinds.PERSISTENT_VOLUME_CLAIMS}
        objects = flatten([self.make(), bystanders()])
        state = cluster([obj for obj in objects if type(obj) not in special])
        for obj in objects:
            if type(obj) in special:
                state.apply("ADDED", special[type(obj)], obj)
        return state.snapshot()

    @property
    def settings(self) -> SchedulerConfig:
        """The configuration."""
        return config(*self.tiers, actions=self.actions)


TOPOLOGY = (("hostile", "priority", "gang"), ("predicates", "network-topology-aware"))
SHARES = (("hostile", "priority"), ("gang", "predicates", "nodeorder", "proportion"))
WORLDS = {
    "preempting": World(preempting, ("starving", "victims", "victim_jobs", "pipelined", "moved"), evictions=1),
    "reclaiming": World(
        reclaiming,
        ("preemptive", "victim_queue_key", "victims"),
        actions="enqueue, allocate, reclaim",
        tiers=SHARES,
        evictions=1,
    ),
    "losing": World(losing, ("protected", "allowance", "lost_work", "removed"), evictions=1),
    "spared": World(losing, ("spared",), advice=True),
    "shuffled": World(losing, ("shuffled", "retained"), actions="enqueue, allocate, shuffle", evictions=2),
    "giving up": World(giving_up, ("removed", "placed"), actions="enqueue, allocate"),
    "refused": World(refused, ("relax",), actions="enqueue, allocate"),
    "admitted": World(admitted, ("admissible", "enqueueable", "enqueued"), binds=2),
    "alike": World(alike, ("underused", "headroom", "missing"), binds=2),
    "with a volume": World(with_volume, ("preparations", "annotations"), binds=1),
    "in domains": World(
        in_domains,
        ("group_key", "group_ready", "domain_gradients", "domain_points", "group_score"),
        tiers=TOPOLOGY,
        binds=4,
    ),
    "in domains, later": World(lambda: in_domains(held=True), ("group_pipelined",), tiers=TOPOLOGY),
}
CASES = [(name, hook) for name, world in WORLDS.items() for hook in world.hooks]
_SNAPSHOTS: dict[str, Snapshot] = {}


def decide(world: str, hook: str, fault: str | None) -> tuple[Decisions, list[str]]:
    """A cycle with a plug-in that fails in one hook, or, without a ``fault``, does well; and when it was asked."""
    plugin, hits = hostile(hook, fault)
    given = WORLDS[world]
    snapshot = _SNAPSHOTS.setdefault(world, given.snapshot())
    plugins = {"hostile": plugin}
    return run(snapshot, given.settings, START + 1000.0, plugins=plugins, advice=given.advice), hits


def own(decisions: Decisions) -> tuple[int, int]:
    """Pods of the job that are bound, and pods that are evicted of it or for it."""
    evicted = [one for one in decisions.evictions if one.pod.startswith("victim-") or one.beneficiary == VICTIM]
    return bound_per_job(decisions).get("victim", 0), len(evicted)


def others(decisions: Decisions) -> Any:
    """What was decided about everybody else."""
    binds = sorted((bind.pod, bind.node) for bind in decisions.binds if not bind.pod.startswith(("victim-", "twin-")))
    evictions = sorted(one.pod for one in decisions.evictions if one.pod.startswith("low-"))
    return binds, evictions


@pytest.mark.parametrize(("world", "hook"), CASES)
def test_a_hook_that_fails_for_one_job_is_asked_and_changes_nothing_for_others(world: str, hook: str) -> None:
    fine, _ = decide(world, hook, None)
    assert not fine.plugin_failures
    assert own(fine) == (WORLDS[world].binds, WORLDS[world].evictions)
    for fault in FAULTS:
        if hook in NOTICES and fault not in list(FAULTS)[:7]:
            continue
        decisions, hits = decide(world, hook, fault)
        assert hits, "the hook was never asked about the job"
        assert others(decisions) == others(fine), fault
        assert not [one for one in decisions.violations if one.plugin != "hostile"], fault
        if (fault, hook) in SOUND:
            continue
        assert {failure.hook for failure in decisions.plugin_failures} == {hook}, fault
        if POLICIES[hook].fails is Fails.CLOSED:
            assert own(decisions) == (0, 0), fault
        else:
            assert own(decisions) == own(fine), fault


def test_every_hook_of_the_table_is_asked_about_the_job() -> None:
    """The two properties together leave no hook out."""
    from test_plugin_failures import PLAIN_HOOKS
    from test_plugin_failures import decide as decide_plainly

    asked = {hook for _, hook in CASES}
    for hook in set(PLAIN_HOOKS) - asked:
        plugin, hits = hostile(hook, "raises")
        decide_plainly(plugin)
        asked |= set(hits)
    assert asked == set(POLICIES)
