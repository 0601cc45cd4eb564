"""Every action and every plug-in decides in a simulation as it does on a live control plane, or is refused by name.

Each has a row with a small scenario whose outcome hangs on it: without it, pods start at other times or elsewhere. The
scenario then happens on a control plane on virtual time and in a simulation, and both must come out alike.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.simulator.live_worlds import Placings, equal, live, simulated
from tests.simulator.worlds import job

from support.plane import REPOSITORY
from unisono.engine.actions import action_names
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import load_config
from unisono.engine.plugins.registry import plugin_names
from unisono.errors import ConfigError
from unisono.simulator.abilities import MISSING, refuse_missing
from unisono.simulator.clusters import build
from unisono.simulator.workload.job import Job, Role
from unisono.simulator.world.settings import Settings
from unisono.simulator.world.world import World

GPU = "nvidia.com/gpu"
SLACK = 8.0
"""Seconds by which a control plane may be later: controllers take a moment, and pods of one job come one by one."""


@dataclass(frozen=True)
class Row:
    """A scenario.

    Attributes:
        jobs: what comes; most pods ask for whole GPUs and one core.
        plugins: by tier; a plug-in is its name, or its name with arguments and switches.
        actions: of the scheduler.
        nodes, queues, topology, reservations, budgets: as in a cluster file.
        until: seconds for which it goes on.
        more: of the configuration.

    """

    jobs: Sequence[Job]
    plugins: Sequence[Sequence[Any]] = ((("gang"), "predicates"),)
    actions: str = "enqueue, allocate"
    nodes: Sequence[dict[str, Any]] = ()
    queues: Sequence[dict[str, Any]] = ()
    topology: Sequence[dict[str, Any]] = ()
    reservations: Sequence[dict[str, Any]] = ()
    budgets: Sequence[dict[str, Any]] = ()
    until: float = 200.0
    more: tuple[dict[str, Any], ...] = ()

    def config(self, without: str = "") -> str:
        """The configuration, also one without an action or a plug-in."""
        actions = [one for one in self.actions.split(", ") if one != without]
        tiers = [
            {"plugins": [{"name": one} if isinstance(one, str) else one for one in tier if _name(one) != without]}
            for tier in self.plugins
        ]
        value: dict[str, Any] = {"actions": ", ".join(actions), "tiers": [tier for tier in tiers if tier["plugins"]]}
        if self.more:
            value["configurations"] = list(self.more)
        return yaml.safe_dump(value)

    def simulate(self, without: str = "") -> Placings:
        """What comes of it in a simulation."""
        config: SchedulerConfig = load_config(self.config(without))
        if without:
            config = replace(config, joins=False)  # else a plug-in that is not listed takes part where it is needed
        return simulated(World(self.cluster, self.jobs, config, Settings(run_times="exact", until=self.until)).run())

    @property
    def cluster(self) -> Any:
        """Its cluster."""
        listed = ("nodes", "queues", "topology", "reservations", "budgets")
        return build({name: list(getattr(self, name)) for name in listed})


def _name(one: Any) -> str:
    return one if isinstance(one, str) else str(one["name"])


def plugin(name: str, arguments: dict[str, Any] | None = None, **switches: bool) -> dict[str, Any]:
    return {"name": name, **switches, **({"arguments": arguments} if arguments else {})}


def node(name: str, gpus: int, count: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "count": count, "cpu": 32, "memory": "64Gi", "gpus": gpus, **more}


ONE = (node("n", 4),)
TWO = (node("a", 4), node("b", 4))
MARKED = (node("a", 8, labels={"side": "a"}), node("b", 8, labels={"side": "b"}))
ON_B = job("pin", 0, 400, roles=(Role(gpus=2, cpu_milli=8000, memory_mib=8192, node_labels={"side": "b"}),))
FREE = job("free", 10, 400, roles=(Role(gpus=2, cpu_milli=8000, memory_mib=8192),))
PINNED = (ON_B, FREE)
"""The second one goes to node b only where something draws it there; ties go to node a."""
FULL = job("full", 0, 60, gpus=4)
QUEUED = (FULL, job("first", 5, 60, gpus=4), job("second", 10, 20, gpus=4))
"""The second one starts before the first only where something says so."""
HELD = (job("low", 0, 150, gpus=4), job("high", 20, 50, gpus=4, priority=9))
EVICTING = "enqueue, allocate, preempt"
PREEMPTING = ("priority", plugin("gang", enablePreemptable=False))
FOUR_GPUS = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1", GPU: 4}, "limits": {GPU: 4}}}]}
TO_QUEUES = ({"name": "left", "weight": 1}, {"name": "right", "weight": 1})
SHARED = (
    FULL,
    *(job(f"l{n}", 5 + n, 60, queue="left") for n in range(4)),
    *(job(f"r{n}", 15 + n, 60, queue="right") for n in range(3)),
)
BORROWED = (
    *(job(f"l{n}", n, 150, queue="left") for n in range(4)),
    *(job(f"r{n}", 30 + n, 50, queue="right") for n in range(2)),
)
CORES = [Role(cpu_milli=1000 * cores) for cores in (20, 18, 22)]
GATED = Row(
    (
        job("some", 0, 60, roles=CORES[:1]),
        job("first", 5, 60, roles=CORES[1:2]),
        job("second", 10, 60, roles=CORES[2:], priority=9),
    ),
    (("priority", "gang", "predicates", "overcommit"),),
    nodes=ONE,
)
"""The first one is promised the room that the second one, which is more important, would get without a promise."""
SHUFFLED = Row(
    (FULL, job("moves", 5, 400, gpus=1), job("stays", 70, 400, gpus=2)),
    (
        ("gang", "predicates"),
        (
            plugin(
                "rescheduling",
                {
                    "interval": "60s",
                    "strategies": [{"name": "highNodeUtilization", "params": {"thresholds": {GPU: 30}}}],
                },
            ),
        ),
    ),
    "enqueue, allocate, shuffle",
    nodes=TWO,
    until=300.0,
)
WIDE = (node("n", 4, 4),)
LEAVES = ({"name": "leaf", "size": 2},)
GANG = {"pods": 2, "gpus": 4, "topology_tier": 1}

PLUGINS: dict[str, Row] = {
    "priority": Row(
        (FULL, job("first", 5, 60, gpus=4), job("second", 10, 20, gpus=4, priority=9)),
        (("priority", "gang", "predicates"),),
        nodes=ONE,
    ),
    "gang": Row((job("some", 0, 60, gpus=2), job("gang", 5, 60, pods=4), job("single", 10, 60, gpus=2)), nodes=ONE),
    "conformance": Row(
        (job("low", 0, 150, gpus=4, user="kube-system"), job("high", 20, 50, gpus=4, priority=9)),
        ((*PREEMPTING, "conformance"), ("predicates",)),
        EVICTING,
        nodes=ONE,
    ),
    "drf": Row(
        (job("full", 0, 60), job("many", 5, 300, pods=4, gang=1), job("few", 10, 50)),
        (("drf", "predicates"),),
        nodes=ONE,
    ),
    "proportion": Row(
        SHARED,
        (("gang", "predicates"), ("proportion",)),
        nodes=ONE,
        queues=TO_QUEUES,
    ),
    "capacity": Row(
        SHARED,
        (("gang", "predicates"), ("capacity",)),
        nodes=ONE,
        queues=({"name": "left", "deserved": {GPU: 1, "cpu": 8}}, {"name": "right", "deserved": {GPU: 3, "cpu": 24}}),
    ),
    "overcommit": GATED,
    "predicates": Row((job("labelled", 0, 60, roles=(Role(gpus=1, node_labels={"side": "b"}),)),), nodes=MARKED),
    "nodeorder": Row(
        (job("one", 0, 100, roles=(Role(cpu_milli=16_000),)), job("two", 10, 100, roles=(Role(cpu_milli=8000),))),
        (("gang", "predicates", "nodeorder"),),
        nodes=TWO,
    ),
    "binpack": Row(PINNED, (("gang", "predicates", plugin("binpack", {"binpack.resources": GPU})),), nodes=MARKED),
    "network-topology-aware": Row(
        (
            job("pin", 0, 400, roles=(Role(gpus=1, cpu_milli=8000, memory_mib=8192, node_labels={"side": "b"}),)),
            job("gang", 10, 60, roles=(Role(count=2, gpus=3, cpu_milli=8000, memory_mib=8192),), topology_tier=1),
        ),
        (("gang", "predicates"), ("network-topology-aware",)),
        nodes=(node("n", 4, 2), node("o", 4, labels={"side": "b"}), node("p", 4)),
        topology=LEAVES,
    ),
    "deviceshare": Row(
        tuple(job(f"j{n}", n, 60, roles=(Role(gpus=1, gpu_milli=600),)) for n in range(3)),
        (("gang", "predicates"), ("deviceshare",)),
        nodes=(node("n", 2),),
    ),
    "fragmentation": Row(
        (job("one", 0, 100, gpus=1), job("two", 10, 100, gpus=4)),
        (("gang", "predicates", plugin("fragmentation", {"fragmentation.pods": [{"pods": 1, "spec": FOUR_GPUS}]})),),
        nodes=(node("a", 4), node("b", 1)),
    ),
    "gpu-aware": Row(
        (job("j", 0, 60),),
        (("gang", "predicates", "gpu-aware"),),
        nodes=(
            node("a", 4, labels={"nvidia.com/gpu.memory": "16384"}),
            node("b", 4, labels={"nvidia.com/gpu.memory": "81920"}),
        ),
    ),
    "gpu-placement": Row(
        (job("j", 0, 60, gpus=2),),
        (("gang", "predicates", "gpu-placement"),),
        nodes=(node("a", 8), node("b", 2)),
    ),
    "service-order": Row(
        QUEUED,
        (
            (
                plugin("service-order", {"service-order.by": "remaining-time", "service-order.preempt": False}),
                "gang",
                "predicates",
            ),
        ),
        nodes=ONE,
    ),
    "sla": Row(
        (
            FULL,
            job("first", 5, 60, gpus=4),
            job("second", 10, 20, gpus=4, annotations={"volcano.sh/sla-waiting-time": "5m"}),
        ),
        (("sla", "gang", "predicates"),),
        nodes=ONE,
    ),
    "cdp": Row(
        (job("low", 0, 150, gpus=4, annotations={"volcano.sh/cooldown-time": "106s"}), HELD[1]),
        ((*PREEMPTING, "cdp"), ("predicates",)),
        EVICTING,
        nodes=ONE,
        until=260.0,
    ),
    "nodegroup": Row(
        (job("j", 0, 60, queue="left"),),
        (("gang", "predicates", "nodegroup"),),
        nodes=(
            node("a", 4, labels={"volcano.sh/nodegroup-name": "one"}),
            node("b", 4, labels={"volcano.sh/nodegroup-name": "two"}),
        ),
        queues=(
            {
                "name": "left",
                "affinity": {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["two"]}},
            },
        ),
    ),
    # It is 22:13:20 at first.
    "tdm": Row(
        (job("j", 0, 100, annotations={"volcano.sh/revocable-zone": "*", "volcano.sh/preemptable": "true"}),),
        (("gang", "predicates", plugin("tdm", {"tdm.revocable-zone.zone": "22:15-22:20"})),),
        nodes=(node("n", 4, labels={"volcano.sh/revocable-zone": "zone"}),),
    ),
    "resource-strategy-fit": Row(
        PINNED,
        (
            (
                "gang",
                "predicates",
                plugin(
                    "resource-strategy-fit",
                    {"resourceStrategyFitWeight": 10, "resources": {GPU: {"type": "MostAllocated", "weight": 1}}},
                ),
            ),
        ),
        nodes=MARKED,
    ),
    "task-topology": Row(
        (
            job(
                "j",
                0,
                60,
                roles=(Role(name="server", cpu_milli=1000), Role(name="worker", cpu_milli=1000)),
                annotations={"volcano.sh/task-topology-anti-affinity": "server,worker"},
            ),
        ),
        (("gang", "predicates", "task-topology"),),
        nodes=TWO,
    ),
    "reservation": Row(
        (job("some", 0, 100, gpus=2), job("big", 5, 60, gpus=4), job("long", 40, 150, gpus=2)),
        (("gang", "predicates", plugin("reservation", {"reservation.after": "20s"})),),
        nodes=ONE,
    ),
    "eviction-guard": Row(
        HELD,
        ((*PREEMPTING, plugin("eviction-guard", {"eviction-guard.minRunTime": "106s"})), ("predicates",)),
        EVICTING,
        nodes=ONE,
        until=260.0,
    ),
    "rescheduling": SHUFFLED,
    "cost": Row(
        (job("j", 0, 60),),
        (("gang", "predicates", "cost"),),
        nodes=(
            node("a", 4, annotations={"unisono.io/prices": f"{GPU}=3"}),
            node("b", 4, annotations={"unisono.io/prices": f"{GPU}=2"}),
        ),
    ),
    "fair-share": Row(
        (
            job("a0", 0, 60, gpus=4, user="alice"),
            *(job(f"a{n}", n, 30, gpus=4, user="alice") for n in (1, 2)),
            *(job(f"b{n}", 10 + n, 30, gpus=4, user="bob") for n in (1, 2)),
        ),
        ((plugin("fair-share", {"fair-share.by": "user"}), "gang", "predicates"),),
        nodes=ONE,
    ),
    "user-limits": Row(
        tuple(job(f"j{n}", n, 60, user="alice", queue="left") for n in range(3)),
        (("user-limits", "gang", "predicates"),),
        nodes=ONE,
        queues=({"name": "left", "annotations": {"unisono.io/user-limits": f"{GPU}=2"}},),
    ),
    "failed-nodes": Row(
        (job("j", 0, 60, annotations={"unisono.io/failed-nodes": "a=900@2023-11-14T22:00:00Z"}),),
        (("gang", "predicates"), ("failed-nodes",)),
        nodes=TWO,
    ),
    "hot-spares": Row(
        (job("a", 0, 120, gpus=4, queue="left"), job("b", 5, 60, gpus=4, queue="left")),
        (("hot-spares", "gang", "predicates"),),
        nodes=TWO,
        queues=({"name": "left", "annotations": {"unisono.io/hot-spares": "1"}},),
    ),
    # The second job finds room for both pods on the second kind alone, the third one when that is free again.
    "one-of": Row(
        tuple(
            job(f"j{n}", 5 * n, 60, gpus=4, annotations={"unisono.io/one-of": "kind=fast, kind=slow"}) for n in range(3)
        ),
        (("gang", "predicates"), ("one-of",)),
        nodes=(node("a", 4, labels={"kind": "slow"}), node("b", 4, labels={"kind": "fast"})),
    ),
    # Node a is another queue's from the third to the fifth minute, and node b is shut from the fourth to the fifth.
    "calendar": Row(
        (
            job("short", 0, 60, gpus=4),
            job("long", 5, 300, gpus=2),
            job("later", 10, 300, gpus=4),
            job("theirs", 20, 60, gpus=4, queue="left", annotations={"unisono.io/reservation": "theirs"}),
        ),
        (("gang", "predicates"), ("calendar",)),
        nodes=TWO,
        queues=({"name": "left"},),
        reservations=(
            {
                "name": "theirs",
                "start": "2023-11-14T22:15:20Z",
                "duration": "2m",
                "nodes": ["a"],
                "queues": ["left"],
            },
            {
                "name": "down",
                "start": "2023-11-14T22:18:20Z",
                "duration": "1m",
                "nodes": ["b"],
                "purpose": "Maintenance",
            },
        ),
        until=500.0,
    ),
    # The first job of queue left uses up a soft budget, so that the second one comes after the job of the other queue.
    "budgets": Row(
        (
            job("uses", 0, 60, gpus=4, queue="left"),
            job("mine", 5, 60, gpus=4, queue="left"),
            job("theirs", 10, 60, gpus=4, queue="right"),
        ),
        (("budgets", "gang", "predicates"),),
        nodes=ONE,
        queues=({"name": "left"}, {"name": "right"}),
        budgets=({"name": "left", "queues": ["left"], "amounts": {GPU: "0.01"}, "mode": "Soft"},),
        until=260.0,
    ),
}

ACTIONS: dict[str, Row] = {
    "enqueue": GATED,
    "allocate": Row((job("j", 0, 60),), nodes=ONE),
    "backfill": Row((FULL, job("nothing", 10, 60, roles=(Role(),))), actions="enqueue, allocate, backfill", nodes=ONE),
    "preempt": Row(HELD, (PREEMPTING, ("predicates",)), EVICTING, nodes=ONE, until=260.0),
    "reclaim": Row(
        BORROWED,
        ((plugin("gang", enablePreemptable=False),), ("predicates", "proportion")),
        "enqueue, allocate, reclaim",
        nodes=ONE,
        queues=TO_QUEUES,
    ),
    "gangpreempt": Row(
        (
            *(job(f"low-{n}", n, 150, gpus=4) for n in range(4)),
            job("gang", 20, 50, priority=9, **GANG),
        ),
        (PREEMPTING, ("predicates", "network-topology-aware")),
        "enqueue, allocate, gangpreempt",
        nodes=WIDE,
        topology=LEAVES,
        until=150.0,
    ),
    "gangreclaim": Row(
        (
            *(job(f"low-{n}", n, 150, gpus=4, queue="left") for n in range(4)),
            job("gang", 20, 50, queue="right", **GANG),
        ),
        ((plugin("gang", enablePreemptable=False),), ("predicates", "network-topology-aware", "proportion")),
        "enqueue, allocate, gangreclaim",
        nodes=WIDE,
        topology=LEAVES,
        queues=TO_QUEUES,
        until=150.0,
    ),
    "shuffle": SHUFFLED,
    "defragment": Row(
        (
            *(job(f"s{n}", n, 1000, roles=(Role(gpus=1, cpu_milli=14_000),)) for n in range(4)),
            job("big", 90, 50, gpus=4),
        ),
        (("priority", "gang", "conformance"), ("predicates", "nodeorder")),
        "enqueue, allocate, backfill, defragment",
        nodes=WIDE,
        more=({"name": "defragment", "arguments": {"minRunTime": "30s", "interval": "1m"}},),
    ),
}

ROWS = {
    **{f"plug-in {name}": row for name, row in PLUGINS.items()},
    **{f"action {name}": row for name, row in ACTIONS.items()},
}


def test_every_action_and_plugin_has_a_row_or_is_refused() -> None:
    assert set(ACTIONS) == set(action_names())
    assert set(PLUGINS) | set(MISSING) == set(plugin_names())
    assert not set(PLUGINS) & set(MISSING)


def test_the_page_has_a_line_for_each_that_says_how_it_comes_out() -> None:
    page = (REPOSITORY / "docs" / "simulator.md").read_text(encoding="utf-8")
    part = page[page.index("### Decided as live") : page.index("## Comparing policies")]
    told = {name: (scenario, how) for name, scenario, how in re.findall(r"^\| `(.+)` \| (.+) \| (.+) \|$", part, re.M)}
    assert list(told) == [*action_names(), *plugin_names()]
    for name, (scenario, how) in told.items():
        missing = MISSING.get(name)
        assert how == ("refused by name" if missing else "equal"), name
        assert not missing or scenario == f"needs {missing}", name


@pytest.mark.parametrize("name", ROWS)
def test_what_is_decided_hangs_on_it_and_is_decided_as_live(name: str, tmp_path: Path) -> None:
    row = ROWS[name]
    told = row.simulate()
    assert told != row.simulate(without=name.split()[1])
    real = live(row.cluster, row.jobs, row.config(), row.until, tmp_path)
    assert equal(told, real, row.until - 2 * SLACK, seconds=SLACK), (told, real)


@pytest.mark.parametrize("name", MISSING)
def test_what_a_simulation_has_not_is_refused_by_name(name: str) -> None:
    arguments = {"extender.urlPrefix": "http://127.0.0.1"} if name == "extender" else None
    config = Row((), ((plugin(name, arguments),),)).config()
    with pytest.raises(ConfigError, match=rf"plug-in {name} goes by "):
        refuse_missing(load_config(config), "a.conf")
