"""Autoscaling by what pods use: Kubernetes' numbers, and what is not measured never does harm."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.controllers.autoscaling.recommend import NoUse, PodUse, Used, proposal_by_use, used_of


def pods(*used: int | None, wanted: float = 100.0, unready: int = 0) -> Used:
    found = [PodUse(each, wanted) for each in used]
    return Used([*found, *(PodUse(None, wanted, ready=False) for _ in range(unready))])


@pytest.mark.parametrize(
    ("current", "use", "wanted"),
    [
        (2, pods(200, 200), 4),
        (2, pods(300, 100), 4),
        (4, pods(50, 50, 50, 50), 2),
        (2, pods(105, 105), 2),
        (2, pods(95, 95), 2),
        (3, pods(300, 300, unready=1), 6),
        (3, pods(140, 140, unready=1), 3),
        (3, pods(20, 20, None), 2),
        (3, pods(80, 80, None), 3),
        (3, pods(300, None, None), 3),
        (1, pods(1000), 10),
    ],
    ids=[
        "twice as much",
        "the mean counts",
        "half",
        "a little above",
        "a little below",
        "pods that start count as idle",
        "pods that start will do",
        "unmeasured pods count as full",
        "unmeasured pods keep it",
        "unmeasured pods count as idle",
        "ten times",
    ],
)
def test_replicas(current: int, use: Used, wanted: int) -> None:
    assert proposal_by_use(current, use, 0.1, 0.1) == wanted


uses = st.lists(
    st.builds(PodUse, st.none() | st.integers(0, 1000), st.integers(1, 500).map(float), st.booleans()), max_size=8
)


@given(st.integers(1, 1000), uses)
def test_what_is_not_known_only_makes_it_more_careful(used: int, others: list[PodUse]) -> None:
    known = Used([PodUse(used, 100.0)])
    careful = Used([*known.pods, *(PodUse(None, 100.0, pod.ready) for pod in others)])
    current = len(careful.pods)
    answer = proposal_by_use(current, careful, 0.1, 0.1)
    if used < 90:
        assert answer <= current
        assert answer >= sum(pod.ready for pod in others)
    elif used > 110:
        assert current <= answer <= max(current, -(-used // 100))
    else:
        assert answer == current


def test_nothing_to_go_by() -> None:
    with pytest.raises(NoUse, match="no pod that is ready"):
        used_of([], {}, "cpu", percent=50)
