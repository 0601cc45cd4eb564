"""drf with ``drf.namespaceOrder``: a flood of jobs in one namespace does not delay another namespace's turn."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.build import cluster, config, gang, group, nodes, pod, queue, schedule
from support.examples import examples
from unisono.engine.config.model import SchedulerConfig


def fair(*, on: bool = True, first: str = "priority") -> SchedulerConfig:
    second = "drf" if first == "priority" else "priority"
    arguments = {"drf": {"drf.namespaceOrder": on}}
    return config((first, second, "gang"), ("predicates", "nodeorder"), arguments=arguments)


def flood(namespace: str, number: int, *, created: float = 0.0, size: int = 1, **options: Any) -> list[Any]:
    """Jobs of one namespace, one second apart."""
    return [
        gang(f"{namespace}-{at}", size, namespace=namespace, created=created + at, **options) for at in range(number)
    ]


def served(things: list[Any], settings: SchedulerConfig) -> dict[str, int]:
    """Bound pods by namespace."""
    counts: dict[str, int] = {}
    for bind in schedule(cluster(things), settings).binds:
        counts[bind.namespace] = counts.get(bind.namespace, 0) + 1
    return counts


def test_by_default_the_oldest_jobs_come_first() -> None:
    things = [nodes(1, cpu=4), flood("alice", 6), flood("bob", 2, created=10)]
    assert served(things, fair(on=False)) == {"alice": 4}


def test_namespaces_take_turns() -> None:
    things = [nodes(1, cpu=4), flood("alice", 6), flood("bob", 2, created=10)]
    assert served(things, fair()) == {"alice": 2, "bob": 2}


def test_what_a_namespace_holds_counts() -> None:
    running = [group("old", 1, namespace="alice", phase="Running"), pod("old", "old", namespace="alice", node="n000")]
    running[1].spec.containers[0].resources.requests = {"cpu": "2"}
    things = [nodes(1, cpu=4), running, flood("alice", 6), flood("bob", 6, created=10)]
    assert served(things, fair()) == {"bob": 2}


def test_large_jobs_count_for_what_they_ask_for() -> None:
    things = [nodes(1, cpu=6), flood("alice", 3, size=2), flood("bob", 6, created=10)]
    assert served(things, fair()) == {"alice": 4, "bob": 2}


def test_plug_ins_that_are_listed_before_it_go_first() -> None:
    things = [nodes(1, cpu=4), flood("alice", 6, priority=7), flood("bob", 2, created=10)]
    urgent = [each for each in things[1] if each]
    assert served([things[0], urgent, things[2]], fair(first="drf")) == {"alice": 2, "bob": 2}


def test_each_queue_has_its_own_turns() -> None:
    """What a namespace holds in one queue is not held against it in another."""
    things = [
        nodes(2, cpu=2),
        queue("left"),
        queue("right"),
        group("old", 1, namespace="alice", phase="Running", queue="left"),
        pod("old", "old", namespace="alice", node="n000", cpu=2),
        flood("alice", 3, queue="right"),
        flood("bob", 3, created=10, queue="right"),
    ]
    assert served(things, fair()) == {"alice": 1, "bob": 1}


def test_admission_follows_the_turns() -> None:
    """With room for two more PodGroups, the gate lets one of each namespace pass."""
    things = [
        nodes(1, cpu=2),
        *(flood(name, 3, created=at, phase="Pending", min_resources=True) for at, name in ((0, "alice"), (10, "bob"))),
    ]
    tiers = (("priority", "drf", "gang"), ("overcommit", "predicates"))
    arguments = {"drf": {"drf.namespaceOrder": True}, "overcommit": {"overcommit-factor": 1.0}}
    decisions = schedule(cluster(things), config(*tiers, actions="enqueue", arguments=arguments))
    assert sorted(one.key for one in decisions.pod_groups if one.phase == "Inqueue") == ["alice/alice-0", "bob/bob-0"]


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 12), st.integers(0, 20)), min_size=2, max_size=4),
    st.integers(1, 20),
)
def test_no_namespace_that_waits_gets_less_than_others_by_more_than_a_job(
    floods: list[tuple[int, int]], room: int
) -> None:
    things: list[Any] = [nodes(1, cpu=room)]
    for at, (number, created) in enumerate(floods):
        things.append(flood(f"user-{at}", number, created=created))
    got = served(things, fair())
    assert sum(got.values()) == min(room, sum(number for number, _ in floods))
    most = max(got.values())
    for at, (number, _) in enumerate(floods):
        mine = got.get(f"user-{at}", 0)
        assert mine == number or mine >= most - 1


@pytest.mark.parametrize("on", [True, False])
def test_the_switch_and_the_tree_of_queues_go_together(on: bool) -> None:
    from unisono.engine.config.arguments import Flags
    from unisono.engine.config.model import PluginConfig
    from unisono.engine.plugins.registry import create

    made = create(PluginConfig("drf", Flags(hierarchy=True), {"drf.namespaceOrder": on}))
    assert made.by_shape is not on
    assert "queue_key" in made.implemented
