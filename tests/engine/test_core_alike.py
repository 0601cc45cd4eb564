"""Jobs of the same shape are served together, and fare as if they were served one by one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.build import GANG, cluster, config, flatten, gang, node, pod, queue, schedule
from support.examples import examples
from unisono.api.base import Object
from unisono.cluster.shapes import Shapes
from unisono.engine.contract.plugin import Plugin
from unisono.engine.decisions import Decisions
from unisono.engine.placement.first_gangs import EquivalenceBatches
from unisono.engine.plugin_host.orders import Heap
from unisono.engine.session.job_state import JobState
from unisono.engine.verdict import Cause
from unisono.engine.verdicts import explain

SHARES = config(
    ("priority", "gang", "conformance"),
    ("overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack"),
)
CONFIGS = {
    "gang": GANG,
    "shares": SHARES,
    "capacity": config(("priority", "gang"), ("predicates", "capacity", "binpack")),
    "bare": config(()),
    "headroom": config(
        ("priority", "gang"),
        ("predicates", "proportion", "binpack", "eviction-guard"),
        arguments={"eviction-guard": {"eviction-guard.headroom": 0.3}},
    ),
}

templates = st.tuples(
    st.integers(1, 4),  # size
    st.integers(0, 4),  # minimum
    st.sampled_from([1, 1, 2]),  # cpu
    st.sampled_from([0, 0, 1]),  # gpu
    st.sampled_from(["q0", "q0", "q1"]),
    st.sampled_from(["Pending", "Inqueue"]),
    st.booleans(),  # minResources
    st.integers(1, 12),  # how many of them
    st.integers(0, 3),  # age of the first
    st.sampled_from([0, 0, 1]),  # how much younger each next one is
    st.sampled_from([None, "all", "some", "more", "others"]),  # minTaskMember of a role
)
node_lists = st.lists(st.tuples(st.integers(1, 8), st.integers(0, 2), st.booleans()), min_size=1, max_size=5)


def roles_of(drawn: str | None, minimum: int) -> dict[str, int] | None:
    if drawn is None:
        return None
    return (
        {"master": 1} if drawn == "others" else {"worker": max(minimum + {"all": 0, "some": -1, "more": 1}[drawn], 0)}
    )


def build(nodes_: list[Any], jobs: list[Any], releasing: bool) -> list[Object]:
    objects: list[Any] = [queue("q0", 1, capability={"cpu": 12}), queue("q1", 2)]
    objects += [node(f"n{i}", cpu=cpu, gpu=gpu, pods=5 if few else 110) for i, (cpu, gpu, few) in enumerate(nodes_)]
    if releasing:
        objects.append(pod("gone", node="n0", deleting=True, cpu=1))
    for number, (size, minimum, cpu, gpu, where, phase, promised, repeats, age, step, role) in enumerate(jobs):
        for copy in range(repeats):
            objects.append(
                gang(
                    f"j{number}-{copy:02}",
                    size,
                    min(minimum, size),
                    queue=where,
                    phase=phase,
                    min_resources=promised,
                    created=age + step * copy,
                    cpu=cpu,
                    roles=roles_of(role, min(minimum, size)),
                    **({"role": "worker"} if role else {}),
                    **({"gpu": gpu} if gpu else {}),
                )
            )
    return flatten(objects)


clusters = st.builds(build, node_lists, st.lists(templates, min_size=1, max_size=5), st.booleans())


def outcome(decisions: Decisions) -> Any:
    return (
        [(b.pod, b.node, b.job) for b in decisions.binds],
        decisions.pipelined,
        decisions.pod_groups,
        decisions.pod_conditions,
        decisions.queues,
        decisions.verdicts,
        decisions.violations,
    )


@settings(max_examples=examples(150), deadline=None)
@given(clusters, st.sampled_from(sorted(CONFIGS)))
def test_together_is_as_one_by_one(objects: list[Object], name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explain, "MOST_JOBS", 2)  # trials look at a cycle each: a few show whether they differ
        together = outcome(schedule(cluster(objects), CONFIGS[name]))
        patch.setattr(Shapes, "of", lambda self, job: (0, 0))
        assert outcome(schedule(cluster(objects), CONFIGS[name])) == together


def count_places(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Notes, for every attempt to serve jobs together, whether it did."""
    served: list[bool] = []
    real = EquivalenceBatches.place

    def place(self: EquivalenceBatches, *given: Any) -> bool:
        served.append(real(self, *given))
        return served[-1]

    monkeypatch.setattr(EquivalenceBatches, "place", place)
    return served


def test_equal_gangs_that_fit_are_placed_with_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    served = count_places(monkeypatch)
    jobs = [gang(f"j{number}", 2, phase="Pending", min_resources=True) for number in range(10)]
    decisions = schedule(cluster([node(f"n{i}", cpu=4) for i in range(5)], queue("default"), jobs), SHARES)
    assert len(decisions.binds) == 20
    assert served == [True]


def test_a_gang_that_found_no_place_speaks_for_all_of_its_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[bool] = []
    real = EquivalenceBatches.fail

    def fail(self: EquivalenceBatches, job: JobState) -> bool:
        told.append(real(self, job))
        return told[-1]

    monkeypatch.setattr(EquivalenceBatches, "fail", fail)
    decisions = schedule(cluster(node("n", cpu=3), [gang(f"j{number}", 4) for number in range(20)]), GANG)
    # What follows are trials of suggestions, each a small cycle of its own.
    assert told[:20] == [False] + 19 * [True]
    assert {verdict.cause for verdict in decisions.verdicts.values()} == {Cause.TOO_LARGE}
    assert {verdict.task for verdict in decisions.verdicts.values()} == {f"ns/j{n}-w-3" for n in range(20)}


class Shy(Plugin):
    """Lets no job of an odd name start: not by shape."""

    name = "shy"

    def ready(self, job: JobState) -> bool:
        return int(job.name[1:]) % 2 == 0


def test_a_plugin_that_looks_at_names_is_asked_about_each_job() -> None:
    state = cluster(node("n", cpu=8), [gang(f"j{number}", 1) for number in range(6)])
    decisions = schedule(state, config(("shy", "gang"), ("predicates",)), plugins={"shy": Shy})
    assert sorted(bind.pod for bind in decisions.binds) == ["j0-w-0", "j2-w-0", "j4-w-0"]


@pytest.mark.parametrize(
    ("change", "alike"),
    [
        pytest.param({}, True, id="names and ages"),
        pytest.param({"labels": {"team": "a"}}, True, id="labels of pods that nobody selects"),
        pytest.param({"cpu": 2}, False, id="requests"),
        pytest.param({"minimum": 1}, False, id="minimum"),
        pytest.param({"queue": "q"}, False, id="queue"),
        pytest.param({"phase": "Pending"}, False, id="phase"),
        pytest.param({"role": "master"}, False, id="role"),
    ],
)
def test_what_makes_a_shape(change: dict[str, Any], alike: bool) -> None:
    state = cluster(queue("q"), gang("a", 2, **{"cpu": 1}), gang("b", 2, **{"cpu": 1, "created": 5} | change))
    jobs = state.snapshot().jobs
    assert jobs["ns/a"].shape > 0
    assert (jobs["ns/a"].shape == jobs["ns/b"].shape) is alike


@pytest.mark.parametrize(
    "tasks",
    [
        pytest.param([pod("j-0", "j", cpu=1), pod("j-1", "j", cpu=2)], id="unequal pods"),
        pytest.param([pod("j-0", "j", cpu=1), pod("j-1", "j", cpu=1, node="n")], id="one runs"),
        pytest.param([pod("j-0", "j", cpu=1, gates=["wait"])], id="gated"),
        pytest.param([pod("j-0", "j", cpu=1, nominated="n")], id="nominated"),
        pytest.param([pod("j-0", "j")], id="requests nothing"),
    ],
)
def test_jobs_that_are_like_no_other(tasks: list[Object]) -> None:
    from support.build import group

    state = cluster(node("n"), group("j", 1), tasks)
    assert state.snapshot().jobs["ns/j"].shape == 0


@pytest.mark.parametrize(
    ("roles", "alike"),
    [
        pytest.param({"w": 2}, True, id="all of one task"),
        pytest.param({"w": 1}, False, id="fewer of it"),
        pytest.param({"w": 1, "x": 1}, False, id="another role as well"),
        pytest.param({"x": 2}, False, id="a role that no pod has"),
    ],
)
def test_jobs_that_state_minimums_by_role_have_a_shape(roles: dict[str, int], alike: bool) -> None:
    state = cluster(gang("a", 2, role="w", roles={"w": 2}), gang("b", 2, role="w", roles=roles))
    jobs = state.snapshot().jobs
    assert jobs["ns/a"].shape > 0
    assert (jobs["ns/a"].shape == jobs["ns/b"].shape) is alike


def test_jobs_without_pods_have_a_shape_whatever_their_roles() -> None:
    from support.build import group

    state = cluster([group(name, 3, roles={"m": 1, "w": 2}, phase="Pending") for name in "ab"])
    jobs = state.snapshot().jobs
    assert jobs["ns/a"].shape == jobs["ns/b"].shape > 0


def test_a_heap_shows_what_comes_next() -> None:
    keys = {"a": 1, "b": 2, "c": 3, "d": 4}
    heap = Heap(lambda name: (keys[name],), keys)
    assert heap.ahead(lambda name: name != "c", 10) == ["a", "b"]
    assert heap.ahead(lambda name: True, 3) == ["a", "b", "c"]
    heap.drop(2)
    keys["e"] = 3.5  # type: ignore[assignment]
    heap.push("e")
    assert heap.ahead(lambda name: True, 10) == ["c"]
    assert heap.leads("a")
    assert not heap.leads("d")
    assert [heap.pop() for _ in range(3)] == ["c", "e", "d"]
    assert not len(heap)
