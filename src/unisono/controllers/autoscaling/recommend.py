"""How many replicas a HorizontalPodAutoscaler wants, by Kubernetes' rules (pure).

See "Horizontal Pod Autoscaling" in Kubernetes' documentation: a metric wants ``ceil(replicas * value / target)``,
nothing changes within a tolerance of 10 %, the largest proposal counts, a drop waits for the stabilization window, and
policies bound how many pods come or go within a period.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from unisono.api.groups.autoscaling import HorizontalPodAutoscalerSpec, HPAScalingPolicy, HPAScalingRules
from unisono.api.quantity import parse_quantity
from unisono.controllers.autoscaling.use import Used, proposal_by_use

TOLERANCE = 0.1
DOWN_SECONDS = 300.0
_PERIOD = 15
_UP = HPAScalingRules(
    stabilization_window_seconds=0,
    select_policy="Max",
    policies=[
        HPAScalingPolicy(type="Pods", value=4, period_seconds=_PERIOD),
        HPAScalingPolicy(type="Percent", value=100, period_seconds=_PERIOD),
    ],
)
_DOWN = HPAScalingRules(
    select_policy="Max", policies=[HPAScalingPolicy(type="Percent", value=100, period_seconds=_PERIOD)]
)


@dataclass(slots=True)
class Memory:
    """What an autoscaler remembers between two looks.

    Attributes:
        wanted: earlier recommendations, as time (seconds) and replicas.
        changes: earlier changes, as time and replicas that came (or, negative, went).

    """

    wanted: list[tuple[float, int]] = field(default_factory=list)
    changes: list[tuple[float, int]] = field(default_factory=list)

    def forget(self, before: float) -> None:
        """Drop what is older."""
        self.wanted = [one for one in self.wanted if one[0] >= before]
        self.changes = [one for one in self.changes if one[0] >= before]


@dataclass(frozen=True, slots=True)
class Measured:
    """The value of one metric and what it should be.

    Attributes:
        value: of all pods together, or of the object.
        target: per pod where ``average``, else as a whole.

    """

    value: float
    target: float
    average: bool


@dataclass(frozen=True, slots=True)
class Advice:
    """How many replicas there should be.

    Attributes:
        replicas: the number.
        limited: reason and message of condition ScalingLimited, which is True where ``bound``.
        bound: something keeps it from what the metrics want.

    """

    replicas: int
    limited: tuple[str, str]
    bound: bool


def proposal(current: int, metric: Measured, up: float = TOLERANCE, down: float = TOLERANCE) -> int:
    """Replicas that one metric wants; ``current`` within the tolerances."""
    if metric.average:
        ratio = metric.value / (metric.target * current) if current else math.inf
        wanted = metric.value / metric.target
    else:
        ratio = metric.value / metric.target
        wanted = ratio * current
    if 1.0 - down <= ratio <= 1.0 + up:
        return current
    return math.ceil(round(wanted, 6))


def propose(current: int, metrics: Sequence[Measured | Used | None], spec: HorizontalPodAutoscalerSpec) -> int | None:
    """The largest proposal; None where no metric is known.

    Where one is not known (None), the others may add replicas and take none away.
    """
    up, down = (_tolerance(rules) for rules in _given(spec))
    found = [
        proposal(current, metric, up, down)
        if isinstance(metric, Measured)
        else proposal_by_use(current, metric, up, down)
        for metric in metrics
        if metric is not None
    ]
    if not found:
        return None
    return max(found) if None not in metrics else max(*found, current)


def _tolerance(rules: HPAScalingRules | None) -> float:
    return TOLERANCE if rules is None or rules.tolerance is None else float(parse_quantity(rules.tolerance))


def _given(spec: HorizontalPodAutoscalerSpec) -> tuple[HPAScalingRules | None, HPAScalingRules | None]:
    behavior = spec.behavior
    return (None, None) if behavior is None else (behavior.scale_up, behavior.scale_down)


def advise(current: int, wanted: int, spec: HorizontalPodAutoscalerSpec, memory: Memory, now: float) -> Advice:
    """Bring a proposal within windows, rates and bounds; ``memory`` learns of the proposal, not of the change.

    Args:
        current: replicas that the target states now, above 0.
        wanted: what the metrics want.
        spec: bounds and behaviour.
        memory: of this autoscaler.
        now: seconds.

    """
    up, down = (rules or default for rules, default in zip(_given(spec), (_UP, _DOWN), strict=True))
    least, most = spec.min_replicas or 1, spec.max_replicas
    if not memory.wanted:
        # As it was found: a restart of the controller is no reason to let pods go at once.
        memory.wanted.append((now, current))
    steady = _steady(current, wanted, up, down, memory, now)
    memory.wanted.append((now, wanted))
    if steady > current:
        rate = _most(current, up, memory, now)
        allowed = min(steady, max(rate, current), most)
        if allowed < steady:
            why = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
            late = ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
            return Advice(max(allowed, least), why if allowed == most else late, bound=True)
        steady = allowed
    elif steady < current:
        rate = _least(current, down, memory, now)
        allowed = max(steady, min(rate, current), least)
        if allowed > steady:
            why = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
            late = ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate")
            return Advice(min(allowed, most), why if allowed == least else late, bound=True)
        steady = allowed
    if steady != wanted:
        text = "recent recommendations were higher than current one, applying the highest recent recommendation"
        return Advice(min(max(steady, least), most), ("ScaleDownStabilized", text), bound=False)
    within = ("DesiredWithinRange", "the desired count is within the acceptable range")
    return Advice(min(max(steady, least), most), within, bound=False)


def _steady(current: int, wanted: int, up: HPAScalingRules, down: HPAScalingRules, memory: Memory, now: float) -> int:
    """The lowest recommendation of the window for more, the highest of that for fewer; ``current`` in between."""
    rising = now - (up.stabilization_window_seconds or 0)
    window = down.stabilization_window_seconds
    falling = now - (DOWN_SECONDS if window is None else window)
    lowest = min([wanted, *(number for at, number in memory.wanted if at > rising)])
    highest = max([wanted, *(number for at, number in memory.wanted if at > falling)])
    return min(max(current, lowest), highest)


def _most(current: int, rules: HPAScalingRules, memory: Memory, now: float) -> int:
    if rules.select_policy == "Disabled":
        return current
    limits = []
    for policy in rules.policies or ():
        start = _before(current, policy, memory, now)
        grown = start + policy.value if policy.type == "Pods" else math.ceil(start * (1 + policy.value / 100))
        limits.append(grown)
    return _chosen(limits, rules, current, up=True)


def _least(current: int, rules: HPAScalingRules, memory: Memory, now: float) -> int:
    if rules.select_policy == "Disabled":
        return current
    limits = []
    for policy in rules.policies or ():
        start = _before(current, policy, memory, now)
        shrunk = start - policy.value if policy.type == "Pods" else int(start * (1 - policy.value / 100))
        limits.append(shrunk)
    return _chosen(limits, rules, current, up=False)


def _chosen(limits: list[int], rules: HPAScalingRules, current: int, *, up: bool) -> int:
    """The widest of the limits, or the narrowest where the rules say ``Min``."""
    if not limits:
        return current
    return max(limits) if up is (rules.select_policy != "Min") else min(limits)


def _before(current: int, policy: HPAScalingPolicy, memory: Memory, now: float) -> int:
    """Replicas at the beginning of the policy's period."""
    return current - sum(change for at, change in memory.changes if at > now - policy.period_seconds)
