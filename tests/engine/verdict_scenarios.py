"""One small cluster per cause; docs/verdicts.md shows what the verdict of job ``ns/j`` says in each."""

from __future__ import annotations

from typing import Any

from support.build import GANG, config, gang, group, node, nodes, pod, priority_class, queue
from unisono.engine.config import SchedulerConfig
from unisono.engine.plugin import Plugin
from unisono.engine.verdict import Cause


def _fail(self: Plugin, *_: Any) -> Any:
    raise RuntimeError("no connection to the price list")


PRICES: type[Plugin] = type("Prices", (Plugin,), {"name": "prices", "queue_key": _fail, "valid": _fail})
"""A plug-in that fails."""

SHARES = config(("priority", "gang"), ("drf", "predicates", "proportion", "nodeorder"))
CAPPED = config(("gang",), ("predicates", "proportion"))
PROMISING = config(("gang",), ("predicates", "overcommit"))
RECLAIMING = config(("priority", "gang"), ("predicates", "proportion"), actions="enqueue, allocate, reclaim, backfill")

J = "j"
Scenario = tuple[str, list[Any], SchedulerConfig]

SCENARIOS: dict[Cause, Scenario] = {
    Cause.NO_PODS: ("A PodGroup of 3, and no pod yet.", [nodes(1), group(J, 3)], GANG),
    Cause.TOO_FEW_PODS: ("2 pods of a gang of 5.", [nodes(1), gang(J, 2, 5)], GANG),
    Cause.QUEUE_MISSING: ("The PodGroup names a queue `new`.", [nodes(1), gang(J, 1, queue="new")], GANG),
    Cause.QUEUE_CLOSED: (
        "The queue is closed.",
        [nodes(1), queue("q", state="Closed"), gang(J, 1, queue="q")],
        GANG,
    ),
    Cause.OVER_CAPABILITY: (
        "A gang of 6 pods of 1 CPU, in a queue that may hold 4 CPUs.",
        [nodes(1), queue("q", capability={"cpu": 4}), gang(J, 6, queue="q", phase="Pending", min_resources=True)],
        CAPPED,
    ),
    Cause.OVER_SHARE: (
        "Two queues of equal weight on 8 CPUs; the job's queue holds 4 of them, the other one asks for 4.",
        [
            nodes(1),
            queue("q"),
            queue("other"),
            [gang(f"mine-{i}", 1, queue="q", cpu=2) for i in range(2)],
            [gang(f"theirs-{i}", 1, queue="other", cpu=2) for i in range(2)],
            gang(J, 1, queue="q", cpu=2, created=9),
        ],
        SHARES,
    ),
    Cause.CLUSTER_OVERCOMMITTED: (
        "All 8 CPUs are in use; overcommit lets 1.2 times 8 be promised.",
        [nodes(1), pod("x", node="n000", cpu=8), gang(J, 3, phase="Pending", min_resources=True)],
        PROMISING,
    ),
    Cause.TOO_LARGE: ("A gang of 6 pods of 1 CPU on three nodes of 1 CPU.", [nodes(3, cpu=1), gang(J, 6)], GANG),
    Cause.NODES_FULL: (
        "Two nodes of 4 CPUs that pods of lower priority use.",
        [
            nodes(2, cpu=4),
            priority_class("high", 100),
            [[group(f"low-{i}", 1), pod(f"low-{i}-w-0", f"low-{i}", node=f"n00{i}", cpu=3)] for i in range(2)],
            gang(J, 1, cpu=2, priority_class="high"),
        ],
        GANG,
    ),
    Cause.FILTERS: (
        "One node is tainted, one is cordoned.",
        [node("a", taints=[("gpu", "", "NoSchedule")]), node("b", unschedulable=True), gang(J, 1)],
        GANG,
    ),
    Cause.PORT_TAKEN: (
        "Host port 6379 is in use on the only node.",
        [nodes(1), pod("redis", node="n000", ports=[6379]), gang(J, 1, ports=[6379])],
        GANG,
    ),
    Cause.GATED: ("The pods have a scheduling gate.", [nodes(1), gang(J, 2, gates=["data-ready"])], GANG),
    Cause.WAITING_FOR_VICTIMS: (
        "A queue takes back its share: two pods of the other one are told to end.",
        [
            nodes(1, cpu=4),
            queue("q"),
            queue("other"),
            [[group(f"o-{i}", 1, queue="other"), pod(f"o-{i}", f"o-{i}", node="n000", cpu=1)] for i in range(4)],
            gang(J, 2, queue="q"),
        ],
        RECLAIMING,
    ),
    Cause.NO_NODES: ("There is no node.", [gang(J, 1)], GANG),
}
