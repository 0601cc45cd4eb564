"""One small cluster per cause; docs/verdicts.md shows what the verdict of job ``ns/j`` says in each."""

from __future__ import annotations

from typing import Any

from topology_world import TOPOLOGY, job, racks, spine, wish

from support.build import GANG, budget, config, floating, gang, group, node, nodes, pod, priority_class, queue, quota
from unisono.engine.answers import Refusal
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import load_config
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugins.extender import extender_with
from unisono.engine.session.job_state import JobState
from unisono.engine.verdict import Cause


def _fail(self: Plugin, *_: Any) -> Any:
    raise RuntimeError("no connection to the price list")


def _refuse(self: Plugin, job: JobState) -> Refusal:
    return Refusal("its annotation team.example/cost-centre is missing", Cause.INVALID)


def _unreachable(*_: Any) -> Any:
    raise ConnectionRefusedError


PRICES: type[Plugin] = type("Prices", (Plugin,), {"name": "prices", "queue_key": _fail, "valid": _fail})
"""A plug-in that fails."""
HOUSE_RULES: type[Plugin] = type("HouseRules", (Plugin,), {"name": "house-rules", "valid": _refuse})
"""A plug-in of one's own that refuses jobs."""
EAGER: type[Plugin] = type("Eager", (Plugin,), {"name": "eager", "ready": lambda self, job: job.ready_count > 0})
"""A plug-in that lets parts of gangs go, which nothing may do."""

PLUGINS: dict[str, type[Plugin]] = {
    "prices": PRICES,
    "house-rules": HOUSE_RULES,
    "eager": EAGER,
    "extender": extender_with(_unreachable),
}
"""Plug-ins that scenarios use beyond the built-in ones."""

SHARES = config(("priority", "gang"), ("drf", "predicates", "proportion", "nodeorder"))
CAPPED = config(("gang",), ("predicates", "proportion"))
PROMISING = config(("gang",), ("predicates", "overcommit"))
RECLAIMING = config(("priority", "gang"), ("predicates", "proportion"), actions="enqueue, allocate, reclaim, backfill")

KEEPING = config(
    ("priority", "gang", "reservation"),
    ("predicates", "nodeorder"),
    arguments={"reservation": {"reservation.after": "30s", "reservation.gangs": 1}},
)
_SERVICE = {"extender.urlPrefix": "http://quota.example", "extender.queueOverusedVerb": "overused"}
_TREE = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: capacity, enableHierarchy: true}]
"""

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
    Cause.LICENSES: (
        "There are 4 licences of matlab, one of them used elsewhere; another job holds two, and this one asks for two.",
        [
            nodes(1),
            floating("matlab", 4, 1),
            group("x", 1, phase="Running"),
            pod("x-0", "x", node="n000", cpu=1, matlab=2),
            gang(J, 1, matlab=2),
        ],
        GANG,
    ),
    Cause.BUDGET: (
        "Eight CPU-hours were used of the five that the queue's budget has in an hour. More in [Budgets](budgets.md).",
        [nodes(1), queue("other"), budget("team", {"cpu": 5}, {"cpu": 8}, period="Hour"), gang(J, 1)],
        GANG,
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
    Cause.INVALID: (
        "A plug-in of one's own refuses the job.",
        [nodes(1), gang(J, 1)],
        config(("gang", "house-rules"), ("predicates",)),
    ),
    Cause.QUEUE_FORBIDDEN: (
        "Queue `q` is for user alice, and bob submitted the job before it was.",
        [
            nodes(1),
            queue("q", annotations={"unisono.io/users": "alice"}),
            group(J, queue="q", annotations={"unisono.io/user": "bob"}),
            pod(f"{J}-0", J),
        ],
        config(("gang",), ("predicates",)),
    ),
    Cause.QUEUE_INVALID: (
        "Queues form a tree, and the parent of queue `q` is gone.",
        [nodes(1), queue("root"), queue("q", parent="gone"), gang(J, 1, queue="q")],
        load_config(_TREE),
    ),
    Cause.QUOTA: (
        "A PodGroup of 6 that asks for 6 CPUs, in a namespace that may use 4.",
        [nodes(1), quota("team", cpu=4), group(J, 6, phase="Pending", resources={"cpu": 6})],
        config(("gang", "resourcequota"), ("predicates",)),
    ),
    Cause.TOPOLOGY: (
        "Two racks of two nodes of 4 CPUs; a gang of 3 pods of 4 CPUs that must stay in one rack.",
        [racks({"a": 2, "b": 2}), spine("top", "a", "b"), job(J, 3, wish(1), cpu=4)],
        TOPOLOGY,
    ),
    Cause.RESERVED: (
        "Two nodes are half full; a gang of two pods of 4 CPUs has waited longer.",
        [
            nodes(2, cpu=4),
            group("running", 2),
            [pod(f"running-{i}", "running", node=f"n00{i}", cpu=2) for i in range(2)],
            gang("large", 2, cpu=4),
            gang(J, 1, created=5),
        ],
        KEEPING,
    ),
    Cause.EXTENDER: (
        "The service that the plug-in extender asks does not listen.",
        [nodes(1), gang(J, 1)],
        config(("gang",), ("predicates", "extender"), arguments={"extender": _SERVICE}),
    ),
    Cause.PLUGIN_FAILED: (
        "A plug-in that may refuse the job failed when it was asked about it.",
        [nodes(1), gang(J, 1)],
        config(("prices", "gang"), ("predicates",)),
    ),
    Cause.INVARIANT: (
        "A plug-in lets two pods of a gang of 3 go without the third one.",
        [nodes(1, cpu=2), gang(J, 3)],
        config(("eager",), ("predicates",)),
    ),
    Cause.NOT_TRIED: (
        "The configuration admits jobs and places none.",
        [nodes(1), gang(J, 1, phase="Pending", min_resources=True)],
        config(("gang",), ("predicates",), actions="enqueue"),
    ),
    Cause.NO_NODES: ("There is no node.", [gang(J, 1)], GANG),
}
