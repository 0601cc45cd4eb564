"""HorizontalPodAutoscalers: every fifteen seconds each gets the replicas that its metrics want."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from unisono.api.groups.autoscaling import (
    ExternalMetricSource,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerCondition,
    HorizontalPodAutoscalerStatus,
    MetricIdentifier,
    MetricSpec,
    MetricStatus,
    MetricValueStatus,
)
from unisono.api.keys import SCALED_OBJECT
from unisono.api.kind_families import HORIZONTAL_POD_AUTOSCALERS, SCALED_OBJECTS
from unisono.api.times import rfc3339
from unisono.controllers.autoscaling import targets
from unisono.controllers.autoscaling.own_queries import identifier_of, measured, own_question, status_of
from unisono.controllers.autoscaling.pod_use import read_use
from unisono.controllers.autoscaling.reading import NotKnownYet, Triggers, metric_name
from unisono.controllers.autoscaling.recommend import Measured, Memory, advise, propose
from unisono.controllers.autoscaling.targets import Target
from unisono.controllers.autoscaling.use import Used
from unisono.controllers.metrics import MetricError
from unisono.controllers.recorder import Recorder
from unisono.controllers.statuses import LastWritten, write_status
from unisono.errors import NotFound
from unisono.kube.controller import Context, Controller

SYNC_SECONDS: Final = 15.0
# The longest window and the longest period that an autoscaler may state.
_REMEMBERED = 3600.0

Conditions = dict[str, tuple[bool, str, str]]


class AutoscalerController(Controller):
    """Evaluates autoscalers as kube-controller-manager does on a cluster."""

    name = "horizontal-pod-autoscaler"
    workers = 4

    def __init__(self, recorder: Recorder, triggers: Triggers) -> None:
        self._recorder, self._triggers = recorder, triggers
        self._written: LastWritten[HorizontalPodAutoscaler] = LastWritten()
        self._memory: dict[str, Memory] = {}

    def setup(self, context: Context) -> None:
        """Watch autoscalers; ScaledObjects say what their metrics are."""
        self._client, self._clock, self._context = context.client, context.clock, context
        self._autoscalers = context.watch(HORIZONTAL_POD_AUTOSCALERS, when=_worth_a_look)
        self._scaled = context.informer(SCALED_OBJECTS)

    async def reconcile(self, key: str) -> float | None:
        """One look at one autoscaler."""
        autoscaler = self._written.newest(key, self._autoscalers.get(key))
        if autoscaler is None or autoscaler.metadata.deletion_timestamp:
            self._memory.pop(key, None)
            self._triggers.forget_autoscaler(key)
            return None
        try:
            status = await self._look(autoscaler)
        except NotKnownYet:
            return SYNC_SECONDS
        try:
            self._written.keep(await write_status(self._client, HORIZONTAL_POD_AUTOSCALERS, autoscaler, status))
        except NotFound:
            return None
        return SYNC_SECONDS

    async def _look(self, autoscaler: HorizontalPodAutoscaler) -> HorizontalPodAutoscalerStatus:
        spec, reference = autoscaler.spec, autoscaler.spec.scale_target_ref
        found: Conditions = {}
        status = HorizontalPodAutoscalerStatus(
            observed_generation=autoscaler.metadata.generation,
            last_scale_time=autoscaler.status.last_scale_time,
            current_metrics=autoscaler.status.current_metrics,
        )
        namespace = autoscaler.metadata.namespace or ""
        try:
            target = await targets.find(self._client, namespace, reference.api_version, reference.kind, reference.name)
        except NotFound as error:
            found["AbleToScale"] = False, "FailedGetScale", f"cannot read the target's scale: {error}"
            self._recorder.event(autoscaler, "Warning", "FailedGetScale", str(error))
            return self._with(status, autoscaler, found)
        found["AbleToScale"] = True, "SucceededGetScale", "the target's scale can be read"
        status.current_replicas = target.present
        current, least = target.replicas, spec.min_replicas or 1
        wanted, why = current, ""
        if current == 0:
            text = "scaling is disabled since the replica count of the target is zero"
            found["ScalingActive"] = False, "ScalingDisabled", text
        elif current > spec.max_replicas:
            wanted, why = spec.max_replicas, "current number of replicas above Spec.MaxReplicas"
        elif current < least:
            wanted, why = least, "current number of replicas below Spec.MinReplicas"
        else:
            wanted, why = await self._by_metrics(autoscaler, target, status, found)
        if wanted != current:
            await self._scale(autoscaler, target, wanted, why, status, found)
        status.desired_replicas = wanted
        return self._with(status, autoscaler, found)

    async def _by_metrics(
        self,
        autoscaler: HorizontalPodAutoscaler,
        target: Target,
        status: HorizontalPodAutoscalerStatus,
        found: Conditions,
    ) -> tuple[int, str]:
        """Replicas that the metrics want, and why."""
        current = target.replicas
        measured: list[Measured | Used | None] = []
        shown: list[MetricStatus] = []
        trouble: tuple[str, str] | None = None
        unknown = False
        for metric in autoscaler.spec.metrics or ():
            try:
                one, told = await self._measure(autoscaler, metric, target)
            except NotKnownYet:
                unknown = True
                continue
            except MetricError as error:
                measured.append(None)
                trouble = trouble or (f"FailedGet{metric.type}Metric", str(error))
                continue
            measured.append(one)
            shown.append(told)
        if unknown:
            raise NotKnownYet("the metrics have been asked for")
        status.current_metrics = shown or None
        proposed = propose(current, measured, autoscaler.spec)
        if proposed is None:
            reason, message = trouble or ("InvalidMetricSourceType", "it names no metric")
            found["ScalingActive"] = False, reason, f"the desired replicas cannot be computed: {message}"
            self._recorder.event(autoscaler, "Warning", reason, message)
            return current, ""
        text = "the desired replicas follow from the metrics"
        found["ScalingActive"] = True, "ValidMetricFound", f"{text}; {trouble[1]}" if trouble else text
        memory = self._memory.setdefault(autoscaler.key, Memory())
        now = self._clock.time()
        memory.forget(now - _REMEMBERED)
        advice = advise(current, proposed, autoscaler.spec, memory, now)
        found["ScalingLimited"] = advice.bound, *advice.limited
        return advice.replicas, f"{_names(shown)} {'above' if advice.replicas > current else 'below'} target"

    async def _measure(
        self, autoscaler: HorizontalPodAutoscaler, metric: MetricSpec, target: Target
    ) -> tuple[Measured | Used, MetricStatus]:
        question = own_question(autoscaler, metric)
        if question is not None:
            again = partial(self._context.enqueue, autoscaler.key)
            name = f"{metric.type}/{(identifier_of(metric) or MetricIdentifier()).name}"
            value = self._triggers.query(autoscaler.key, name, question, self._clock.time(), again)
            return self._shown(metric, measured(metric, value), target.replicas)
        if metric.type == "External" and metric.external is not None:
            return await self._external(autoscaler, metric, metric.external, target.replicas)
        source = metric.resource if metric.type == "Resource" else None
        container = metric.container_resource if metric.type == "ContainerResource" else None
        if source is None and container is None:
            named = (identifier_of(metric) or MetricIdentifier(name="NAME")).name
            raise MetricError(
                f"there is no source for metrics of type {metric.type} here; name a query in the annotations "
                f"metric-config.{metric.type.lower()}.{named}.prometheus/query and .../prometheus-server"
            )
        namespace = autoscaler.metadata.namespace or ""
        return await read_use(self._client, namespace, target, source, container)

    async def _external(
        self, autoscaler: HorizontalPodAutoscaler, metric: MetricSpec, source: ExternalMetricSource, current: int
    ) -> tuple[Measured, MetricStatus]:
        selector = source.metric.selector
        name = ((selector.match_labels if selector else None) or {}).get(SCALED_OBJECT, "")
        scaled = self._scaled.get(f"{autoscaler.metadata.namespace}/{name}") if name else None
        at = next(
            (
                number
                for number, trigger in enumerate(scaled.spec.triggers if scaled else ())
                if metric_name(number, trigger) == source.metric.name
            ),
            None,
        )
        if scaled is None or at is None:
            raise MetricError(f"no ScaledObject of this namespace gives the metric {source.metric.name}")
        again = partial(self._context.enqueue, autoscaler.key)
        reading = self._triggers.read(scaled, at, self._clock.time(), again)
        return self._shown(metric, measured(metric, reading.value), current)

    @staticmethod
    def _shown(metric: MetricSpec, found: Measured, current: int) -> tuple[Measured, MetricStatus]:
        """What was measured, and how the status shows it."""
        value = _text(found.value / max(current, 1) if found.average else found.value)
        shown = MetricValueStatus(average_value=value) if found.average else MetricValueStatus(value=value)
        return found, status_of(metric, shown)

    async def _scale(
        self,
        autoscaler: HorizontalPodAutoscaler,
        target: Target,
        wanted: int,
        why: str,
        status: HorizontalPodAutoscalerStatus,
        found: Conditions,
    ) -> None:
        await targets.scale(self._client, target, wanted)
        now = self._clock.time()
        self._memory.setdefault(autoscaler.key, Memory()).changes.append((now, wanted - target.replicas))
        self._recorder.event(autoscaler, "Normal", "SuccessfulRescale", f"New size: {wanted}; reason: {why}")
        found["AbleToScale"] = True, "SucceededRescale", f"the target was given {wanted} replicas"
        status.last_scale_time = rfc3339(now)

    def _with(
        self, status: HorizontalPodAutoscalerStatus, autoscaler: HorizontalPodAutoscaler, found: Conditions
    ) -> HorizontalPodAutoscalerStatus:
        """The status with its conditions; one that stays as it was keeps its time."""
        before = {each.type: each for each in autoscaler.status.conditions or ()}
        status.conditions = [
            _condition(before.get(kind), kind, *state, rfc3339(self._clock.time())) for kind, state in found.items()
        ]
        return status


def _condition(
    before: HorizontalPodAutoscalerCondition | None, kind: str, true: bool, reason: str, message: str, now: str
) -> HorizontalPodAutoscalerCondition:
    status = "True" if true else "False"
    since = before.last_transition_time if before is not None and before.status == status else now
    return HorizontalPodAutoscalerCondition(
        type=kind, status=status, last_transition_time=since, reason=reason, message=message
    )


def _names(shown: Sequence[MetricStatus]) -> str:
    found = []
    for each in shown:
        source = each.external or each.object or each.pods
        named = source.metric if source is not None else each.resource or each.container_resource
        found.append(named.name if named is not None else "")
    return ", ".join(filter(None, found)) or "metrics"


def _text(value: float) -> str:
    """A quantity in thousandths."""
    return f"{round(value * 1000)}m" if value % 1 else str(int(value))


def _worth_a_look(event_type: str, new: Any, old: Any) -> bool:
    """Own writes of the status are no reason to look again."""
    return old is None or event_type != "MODIFIED" or new.spec != old.spec or new.metadata.uid != old.metadata.uid
