"""priority, drf and conformance: who comes first, and who may be evicted."""

from __future__ import annotations

import pytest
from plugins_world import World, a_pod, class_of, job_of, task_of

from support.build import cluster, config, gang, nodes, queue, unadvised
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import Purpose


def masks(world: World, name: str, actor: str, task: str, victims: list[str], purpose: Purpose) -> list[bool] | None:
    session, plugin = world.open(name)
    chosen = plugin.victims(
        job_of(session, actor),
        task_of(session, task) if task else None,
        [task_of(session, v) for v in victims],
        purpose,
    )
    return None if chosen is None else chosen.tolist()


# ---- priority


def ranked() -> World:
    world = World().node("n1").queue("q").priority("low", 10).priority("high", 100)
    world.job("l", a_pod(node="n1", priority=10), a_pod(priority=10), priorityClassName="low")
    world.job("h", a_pod(node="n1", priority=100), a_pod(priority=200), priorityClassName="high")
    return world.job("m", a_pod(node="n1"), priorityClassName="low")


def test_priority_orders_jobs_and_tasks() -> None:
    session, plugin = ranked().open("priority")
    assert plugin.job_key(job_of(session, "h")) < plugin.job_key(job_of(session, "l"))
    assert plugin.job_key(job_of(session, "l")) == plugin.job_key(job_of(session, "m"))
    assert plugin.task_key(task_of(session, "h-1")) < plugin.task_key(task_of(session, "h-0"))


def test_starving_means_that_some_pod_has_no_place() -> None:
    session, plugin = ranked().open("priority")
    job = job_of(session, "l")
    assert plugin.starving(job)
    assert not plugin.starving(job_of(session, "m"))
    job.move(class_of(session, "l-1"), "", 1, TaskStatus.PENDING, TaskStatus.PIPELINED)
    assert not plugin.starving(job)


@pytest.mark.parametrize(
    ("actor", "task", "purpose", "allowed"),
    [
        ("h", "h-1", Purpose.PREEMPT, [True, True, True]),
        ("l", "l-1", Purpose.PREEMPT, [False, False, False]),
        ("h", "", Purpose.GANG_PREEMPT, [True, True, False]),
        ("l", "", Purpose.GANG_RECLAIM, [True, True, True]),
        ("h", "h-1", Purpose.RECLAIM, None),
        ("h", "h-1", Purpose.SHUFFLE, None),
    ],
)
def test_priority_victims(actor: str, task: str, purpose: Purpose, allowed: list[bool] | None) -> None:
    assert masks(ranked(), "priority", actor, task, ["l-0", "m-0", "h-0"], purpose) == allowed


# ---- conformance


@pytest.mark.parametrize(
    ("purpose", "allowed"),
    [
        (Purpose.PREEMPT, [True, False, False]),
        (Purpose.RECLAIM, [True, False, False]),
        (Purpose.GANG_PREEMPT, [True, False, False]),
        (Purpose.SHUFFLE, None),
    ],
)
def test_critical_pods_are_spared(purpose: Purpose, allowed: list[bool] | None) -> None:
    world = World().node("n1").queue("q").job("a", a_pod()).job("v", a_pod(node="n1"))
    world.pod("node-critical", **a_pod(node="n1", priorityClassName="system-node-critical"))
    world.pod("cluster-critical", **a_pod(node="n1", priorityClassName="system-cluster-critical"))
    names = ["v-0", "node-critical", "cluster-critical"]
    assert masks(world, "conformance", "a", "a-0", names, purpose) == allowed


def test_pods_of_kube_system_are_spared() -> None:
    world = World().node("n1").queue("q").job("a", a_pod())
    world.pod("dns", namespace="kube-system", **a_pod(node="n1"))
    session, plugin = world.open("conformance")
    dns = session.snapshot.tasks["kube-system/dns"]
    assert plugin.victims(job_of(session, "a"), None, [dns], Purpose.PREEMPT).tolist() == [False]


# ---- drf


def test_dominant_share_counts_pods_as_a_resource() -> None:
    world = World().node("n1", has={"cpu": "100", "memory": "1000Gi", "pods": "1000"}).queue("q")
    world.job("twenty", *[a_pod("1", "", node="n1")] * 20)
    world.job("many", *[a_pod("100m", "", node="n1")] * 300)
    world.job("idle", a_pod())
    session, plugin = world.open("drf")
    shares = [plugin.job_key(job_of(session, name)) for name in ("twenty", "many", "idle")]
    assert shares == [0.2, 0.3, 0.0]


def test_shares_follow_placements() -> None:
    world = World().node("n1").queue("q").job("j", a_pod("2"), a_pod("2"))
    session, plugin = world.open("drf")
    job = job_of(session, "j")
    job.move(class_of(session, "j-0"), "", 1, TaskStatus.PENDING, TaskStatus.PIPELINED)
    assert plugin.job_key(job) == 0.2


def test_nodes_that_nobody_can_use_do_not_dilute_shares() -> None:
    world = (
        World()
        .node("n1")
        .node("n2", unschedulable=True)
        .node("n3", ready=False)
        .queue("q")
        .job("j", a_pod("5", node="n1"))
    )
    session, plugin = world.open("drf")
    assert plugin.job_key(job_of(session, "j")) == 0.5


def test_drf_victims_keep_a_share_that_is_no_smaller() -> None:
    world = World().node("n1").queue("q").job("a", a_pod("2")).job("v", *[a_pod("2", node="n1")] * 3)
    names = ["v-0", "v-1", "v-2"]
    # v holds 0.6: without one task 0.4, without two 0.2, which still is no less than the actor's 0.2
    assert masks(world, "drf", "a", "a-0", names, Purpose.PREEMPT) == [True, True, False]
    assert masks(world, "drf", "a", "a-0", names, Purpose.RECLAIM) is None
    assert masks(world, "drf", "a", "", names, Purpose.PREEMPT) is None


# ---- equals


@pytest.mark.parametrize(
    ("ages", "first"),
    [
        ({"b": 5.0, "a": 9.0, "c": 7.0}, "b"),
        ({"b": 5.0, "a": 5.0, "c": 7.0}, "a"),
        ({"c": 5.0, "b": 5.0, "a": 6.0}, "b"),
    ],
)
@pytest.mark.parametrize("size", [1, 2], ids=["alike", "of-other-shapes"])
def test_among_equals_the_oldest_starts_and_then_the_first_by_name(
    ages: dict[str, float], first: str, size: int
) -> None:
    waiting = [gang(name, 1 if name == first else size, 1, queue="q", created=age) for name, age in ages.items()]
    setting = config(("priority", "gang"), ("predicates", "nodeorder"))
    decisions = unadvised(cluster([queue("q"), nodes(1, cpu=1), *waiting]), setting)
    assert [bind.job for bind in decisions.binds] == [f"ns/{first}"]
