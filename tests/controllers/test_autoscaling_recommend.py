"""How many replicas an autoscaler wants: Kubernetes' rules, and that nothing leaves its bounds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.api.groups.autoscaling import (
    CrossVersionObjectReference,
    HorizontalPodAutoscalerBehavior,
    HorizontalPodAutoscalerSpec,
    HPAScalingPolicy,
    HPAScalingRules,
)
from unisono.controllers.autoscaling.recommend import Measured, Memory, advise, proposal, propose


def spec(least: int = 1, most: int = 100, **behavior: HPAScalingRules) -> HorizontalPodAutoscalerSpec:
    return HorizontalPodAutoscalerSpec(
        scale_target_ref=CrossVersionObjectReference(kind="Deployment", name="web"),
        min_replicas=least,
        max_replicas=most,
        behavior=HorizontalPodAutoscalerBehavior(**behavior) if behavior else None,
    )


def rules(*policies: tuple[str, int, int], **more: Any) -> HPAScalingRules:
    return HPAScalingRules(
        policies=[HPAScalingPolicy(type=kind, value=value, period_seconds=period) for kind, value, period in policies],
        **more,
    )


@pytest.mark.parametrize(
    ("current", "value", "target", "average", "wanted"),
    [
        # "Algorithm details" of Kubernetes' documentation: 200m where 100m is wanted doubles, 50m halves.
        pytest.param(4, 200, 100, False, 8, id="twice the value"),
        pytest.param(4, 50, 100, False, 2, id="half the value"),
        pytest.param(4, 109, 100, False, 4, id="within the tolerance"),
        pytest.param(4, 91, 100, False, 4, id="within the tolerance below"),
        pytest.param(4, 111, 100, False, 5, id="rounded up"),
        pytest.param(3, 5000, 1000, True, 5, id="per pod"),
        pytest.param(3, 5001, 1000, True, 6, id="per pod, rounded up"),
        pytest.param(3, 3200, 1000, True, 3, id="per pod, within the tolerance"),
        pytest.param(3, 0, 1000, True, 0, id="nothing to do"),
    ],
)
def test_one_metric(current: int, value: float, target: float, average: bool, wanted: int) -> None:
    assert proposal(current, Measured(value, target, average)) == wanted


def test_the_largest_proposal_counts_and_one_that_is_missing_takes_nothing_away() -> None:
    low, high = Measured(1, 1, average=True), Measured(9, 1, average=True)
    assert propose(5, [low, high], spec()) == 9
    assert propose(5, [low], spec()) == 1
    assert propose(5, [low, None], spec()) == 5
    assert propose(5, [high, None], spec()) == 9
    assert propose(5, [None], spec()) is None


def run(given: HorizontalPodAutoscalerSpec, current: int, wanted: list[int], every: float = 15.0) -> list[int]:
    """Replicas after each look."""
    memory, found, now = Memory(), [], 1000.0
    for want in wanted:
        advice = advise(current, want, given, memory, now)
        if advice.replicas != current:
            memory.changes.append((now, advice.replicas - current))
        current = advice.replicas
        found.append(current)
        now += every
    return found


@pytest.mark.parametrize(
    ("given", "current", "wanted", "replicas"),
    [
        pytest.param(spec(), 1, [50] * 5, [5, 10, 20, 40, 50], id="four pods or twice as many in 15 s"),
        pytest.param(spec(most=7), 1, [50] * 3, [5, 7, 7], id="most"),
        pytest.param(spec(least=3), 10, [1] * 21, [10] * 20 + [3], id="a drop waits for five minutes"),
        pytest.param(
            spec(scale_down=rules(("Percent", 10, 60), stabilization_window_seconds=0)),
            80,
            [10] * 9,
            [72, 72, 72, 72, 64, 64, 64, 64, 57],
            id="10 % in a minute",
        ),
        pytest.param(
            spec(
                scale_down=rules(
                    ("Pods", 2, 15), ("Percent", 50, 15), select_policy="Min", stabilization_window_seconds=0
                )
            ),
            20,
            [1] * 3,
            [18, 16, 14],
            id="the narrowest policy",
        ),
        pytest.param(
            spec(scale_down=rules(("Pods", 2, 15), select_policy="Disabled", stabilization_window_seconds=0)),
            20,
            [1] * 2,
            [20, 20],
            id="never down",
        ),
        pytest.param(
            spec(scale_up=rules(("Percent", 900, 60), stabilization_window_seconds=60)),
            2,
            [10, 4, 10, 10, 10, 10],
            [2, 2, 2, 2, 4, 10],
            id="the lowest of the window before more",
        ),
    ],
)
def test_windows_and_rates(
    given: HorizontalPodAutoscalerSpec, current: int, wanted: list[int], replicas: list[int]
) -> None:
    assert run(given, current, wanted) == replicas


BEHAVIORS = st.builds(
    lambda kind, value, period, window, select: rules(
        (kind, value, period), stabilization_window_seconds=window, select_policy=select
    ),
    st.sampled_from(["Pods", "Percent"]),
    st.integers(1, 200),
    st.integers(1, 120),
    st.integers(0, 120),
    st.sampled_from(["Max", "Min", "Disabled", None]),
)


@given(
    st.integers(1, 5),
    st.integers(5, 60),
    st.lists(st.integers(0, 200), min_size=1, max_size=30),
    st.dictionaries(st.sampled_from(["scale_up", "scale_down"]), BEHAVIORS),
)
def test_replicas_stay_within_their_bounds_and_settle(
    least: int, most: int, wanted: list[int], behavior: dict[str, HPAScalingRules]
) -> None:
    given = spec(least, most, **behavior)
    found = run(given, least, [*wanted, *[wanted[-1]] * 300])
    assert all(least <= replicas <= most for replicas in found)
    assert len(set(found[-5:])) == 1, "under a load that stays, nothing flaps"
    if not behavior:
        assert found[-1] == min(max(wanted[-1], least), most)
