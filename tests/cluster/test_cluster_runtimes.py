"""Run times of earlier jobs: what counts as a run, which jobs are of one kind, and what is expected of the next."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.build import START, cluster, group, kind_of, node, pod
from unisono.api.core import ContainerState, ContainerStateTerminated, ContainerStatus, Pod
from unisono.api.kinds import PODS
from unisono.api.times import rfc3339
from unisono.cluster.recent import beginning
from unisono.cluster.state import ClusterState


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("train-resnet", "train-resnet"),
        ("train-resnet-42", "train-resnet"),
        ("train-resnet-2026-11-20", "train-resnet"),
        ("train-resnet-x7k2p", "train-resnet"),
        ("train-resnet-42-2f1c7a90-0b1d-4c55-9d3e-0123456789ab", "train-resnet"),
        ("train-resnet-3fa81c", "train-resnet"),
        ("train-resnet50", "train-resnet50"),
        ("train-model", "train-model"),
        ("train-facade", "train-facade"),
        ("42", "42"),
    ],
)
def test_names_of_one_kind(name: str, kind: str) -> None:
    assert beginning(name) == kind


def done(job: str, seconds: float, *, began: float = 0.0, phase: str = "Succeeded", **options: Any) -> Pod:
    """A pod of ``job`` that ran for ``seconds``."""
    one = pod(options.pop("name", f"{job}-w-0"), job, node="n", phase=phase, **options)
    one.status.start_time = rfc3339(START + began)
    ended = ContainerStateTerminated(exit_code=0, finished_at=rfc3339(START + began + seconds))
    one.status.container_statuses = [ContainerStatus(name="main", state=ContainerState(terminated=ended))]
    return one


def expected(state: ClusterState, job: str = "train-99", **options: Any) -> float:
    waiting = pod(f"{job}-w-0", job, **options)
    state.apply("ADDED", PODS, waiting)
    return state.snapshot().run_times.estimate(state.tasks[waiting.key])


def after(*pods: Pod) -> ClusterState:
    return cluster(node("n"), group("train-99"), list(pods))


@pytest.mark.parametrize(
    ("pods", "seconds"),
    [
        pytest.param([], 0.0, id="nothing is known"),
        pytest.param([done("train-1", 100)], 100.0, id="one run"),
        pytest.param([done("train-1", 100), done("train-2", 200, began=10)], 150.0, id="the mean of two"),
        pytest.param(
            [done("train-1", 9000), done("train-2", 100, began=10_000), done("train-3", 300, began=11_000)],
            200.0,
            id="the last two",
        ),
        pytest.param([done("train-1", 100), done("test-1", 500)], 100.0, id="other jobs do not count"),
        pytest.param([done("train-1", 100, namespace="other")], 0.0, id="nor other namespaces"),
        pytest.param([done("train-1", 100, role="ps")], 0.0, id="nor other roles"),
        pytest.param([done("train-1", 100, phase="Failed")], 0.0, id="a failure tells nothing"),
        pytest.param(
            [done("train-1", 100), done("train-1", 140, name="train-1-w-1"), done("train-2", 60, began=500)],
            100.0,
            id="a gang is one run, of its longest pod",
        ),
    ],
)
def test_what_is_expected(pods: list[Pod], seconds: float) -> None:
    assert expected(after(*pods)) == seconds


def test_a_pod_whose_end_nobody_can_read_is_kept_and_tells_nothing() -> None:
    odd = done("train-1", 100)
    odd.status.container_statuses[0].state.terminated.finished_at = "yesterday"  # type: ignore[index, union-attr]
    state = after(odd)
    assert odd.key in state.tasks
    assert expected(state) == 0.0


runs = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 500), st.integers(0, 10_000)), max_size=8)


@given(runs, st.integers(0, 10**6))
def test_order_and_repetition_of_events_do_not_matter(history: list[tuple[int, int, int]], seed: int) -> None:
    """As after a restart, when a list comes in any order; jobs that end at one moment go by their names."""
    first: dict[int, Pod] = {}
    for job, seconds, began in history:
        first.setdefault(job, done(f"train-{job}", seconds, began=began))
    pods = list(first.values())
    mixed = pods * 2
    Random(seed).shuffle(mixed)
    one, other = after(*pods), cluster(node("n"), group("train-99"))
    for each in mixed:
        other.apply("MODIFIED", kind_of(each), each)
    assert expected(one) == expected(other)
