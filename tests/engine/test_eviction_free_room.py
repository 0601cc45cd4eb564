"""Free room first: what is free, or left over, is taken before pods go, and as few go as will do."""

from __future__ import annotations

from typing import Any

import pytest
from eviction_world import OFF, Plane, settings

from support.build import group, node, pod, priority_class, queue
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import load_config

ACTIONS = ("preempt", "reclaim", "gangpreempt", "gangreclaim")
RANKS = [priority_class("low", 10), priority_class("high", 100)]


def acting(action: str) -> SchedulerConfig:
    """Volcano's two tiers with one action that evicts, and capacity, which divides nothing by weight."""
    if not action.startswith("gang"):
        return settings(f"enqueue, allocate, {action}, backfill", gang=OFF, drf=OFF, quota="capacity")
    plugins = "\n".join(f"  - name: {name}" for name in ("predicates", "capacity", "network-topology-aware"))
    return load_config(
        f'actions: "enqueue, allocate, {action}, backfill"\ntiers:\n'
        f"- plugins:\n  - name: priority\n  - name: gang\n  - name: conformance\n- plugins:\n{plugins}\n"
    )


def scene(
    action: str, nodes: dict[str, tuple[int, list[int]]], wanted: list[int], *, protected: str = "", minimum: int = 0
) -> Plane:
    """Nodes with so many GPUs and running pods of one-pod jobs on them, and a gang whose pods want ``wanted`` GPUs.

    Pods of the node ``protected`` may not be evicted.
    """
    other = "rich" if action.endswith("reclaim") else "mine"
    things: list[Any] = [*RANKS, queue("mine", 1, deserved={"gpu": 64}), queue("rich", 1, deserved={"gpu": 0})]
    for name, (gpus, held) in nodes.items():
        things.append(node(name, cpu=64, gpu=gpus))
        for number, gpu in enumerate(held):
            job = f"{name}-{number}"
            notes = {"volcano.sh/preemptable": "false"} if name == protected else {}
            things.append(group(job, 1, queue=other, phase="Running", priority_class="low"))
            things.append(pod(f"{job}-w-0", job, node=name, cpu=1, gpu=gpu, annotations=notes))
    things.append(group("g", minimum or len(wanted), queue="mine", phase="Inqueue", priority_class="high"))
    things += [pod(f"g-w-{number}", "g", cpu=1, gpu=gpu) for number, gpu in enumerate(wanted)]
    return Plane(acting(action), *things)


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize(
    ("nodes", "wanted", "protected", "victims"),
    [
        ({"n1": (8, [1] * 8), "n2": (8, [1] * 5)}, [1] * 4, "", 1),
        ({"n1": (8, [1] * 8), "n2": (8, [1] * 5)}, [1] * 4, "n2", 1),
        ({"n1": (8, [1] * 8), "n2": (8, [1] * 6), "n3": (2, [1])}, [1] * 5, "n3", 2),
        ({"n1": (4, [4]), "n2": (4, [1] * 4)}, [2, 2], "n2", 1),  # the victim leaves room for both
        ({"n1": (4, [1] * 4), "n2": (4, [1] * 3)}, [2, 1], "n2", 2),  # the small one is free, two go for the large one
        ({"n1": (4, [1] * 3), "n2": (2, [1, 1])}, [1, 2], "n2", 2),  # all on n1, where one is free
    ],
)
def test_what_is_free_is_taken_before_pods_go(
    action: str, nodes: dict[str, tuple[int, list[int]]], wanted: list[int], protected: str, victims: int
) -> None:
    plane = scene(action, nodes, wanted, protected=protected)
    decisions = plane.cycle()
    assert len(decisions.evictions) == victims
    assert {eviction.beneficiary for eviction in decisions.evictions} == {"ns/g"}
    plane.settle()
    assert plane.running()["g"] == len(wanted)
    assert sum(map(len, plane.evicted)) == victims


LIMITED = """
actions: "enqueue, allocate, {action}, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
  - name: user-limits
  - name: resourcequota
- plugins:
  - name: predicates
  - name: capacity
    enableHierarchy: true
  - name: nodeorder
"""


@pytest.mark.parametrize(
    ("action", "limit"),
    [(action, "user") for action in ACTIONS] + [(a, limit) for a in ACTIONS[1::2] for limit in ("queue", "parent")],
)
def test_nobody_goes_for_a_job_that_a_limit_keeps_waiting(action: str, limit: str) -> None:
    """Two jobs of 8 GPUs of one user: each could have the place, both together may not."""
    other = "other" if action.endswith("reclaim") else "mine"
    most = {"capability": {"gpu": 12}}
    by_user = {"annotations": {"unisono.io/user-limits": "nvidia.com/gpu=12"}} if limit == "user" else {}
    things: list[Any] = [
        *RANKS,
        queue("team", deserved={"gpu": 32}, **(most if limit == "parent" else {})),
        queue("mine", parent="team", deserved={"gpu": 32}, **(most if limit == "queue" else by_user)),
        queue("other", deserved={"gpu": 0}),
        node("n0", cpu=64, gpu=32),
    ]
    for number in range(4):
        user = {"unisono.io/user": "somebody"}
        things.append(group(f"v{number}", queue=other, phase="Running", priority_class="low", annotations=user))
        things.append(pod(f"v{number}-0", f"v{number}", node="n0", cpu=1, gpu=8))
    for number in range(2):
        things.append(group(f"b{number}", queue="mine", phase="Inqueue", priority_class="high", created=9))
        things.append(pod(f"b{number}-0", f"b{number}", cpu=1, gpu=8))
    plane = Plane(load_config(LIMITED.format(action=action)), *things)
    plane.cycle()
    assert len(plane.evicted[0]) == 1
    plane.settle()
    running = plane.running()
    assert [running.get("b0", 0), running.get("b1", 0)] == [1, 0]
    assert sum(map(len, plane.evicted)) == 1


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize(
    ("nodes", "wanted", "protected", "victims"),
    [
        # the first pod evicts a small one, the second a large one that leaves room for both
        ({"n1": (1, [1]), "n2": (4, [4])}, [1, 3], "", {"n2-0"}),
        ({"n1": (2, [1, 1]), "n2": (4, [4])}, [1, 1, 2], "", {"n2-0"}),
    ],
)
def test_what_a_later_eviction_makes_needless_is_taken_back(
    action: str, nodes: dict[str, tuple[int, list[int]]], wanted: list[int], protected: str, victims: set[str]
) -> None:
    """As one gang, and as jobs of one pod each, the first of which is served first."""
    for jobs in (1, len(wanted)):
        plane = scene(action, nodes, wanted if jobs == 1 else [], protected=protected)
        for number, gpu in enumerate(wanted if jobs > 1 else []):
            plane.put(group(f"s{number}", queue="mine", priority_class="high", created=number))
            plane.put(pod(f"s{number}-w-0", f"s{number}", cpu=1, gpu=gpu))
        plane.cycle()
        assert set(plane.evicted[0]) == victims
        plane.settle()
        assert sum(number for name, number in plane.running().items() if name[0] in "gs") == len(wanted)
        assert sum(map(len, plane.evicted)) == len(victims)
