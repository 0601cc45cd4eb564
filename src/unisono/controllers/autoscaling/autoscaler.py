"""HorizontalPodAutoscalers: every fifteen seconds each gets the replicas that its metrics want."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec

from unisono.api import kinds
from unisono.api.base import LabelSelector, Object
from unisono.api.groups.autoscaling import (
    ContainerResourceMetricSource,
    ContainerResourceMetricStatus,
    ExternalMetricSource,
    ExternalMetricStatus,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerCondition,
    HorizontalPodAutoscalerStatus,
    MetricIdentifier,
    MetricSpec,
    MetricStatus,
    MetricTarget,
    MetricValueStatus,
    ObjectMetricStatus,
    PodsMetricStatus,
    ResourceMetricSource,
    ResourceMetricStatus,
)
from unisono.api.groups.resource_metrics import POD_METRICS
from unisono.api.keda import LONGEST_QUERY
from unisono.api.keys import SCALED_OBJECT
from unisono.api.kind import Kind
from unisono.api.kind_families import HORIZONTAL_POD_AUTOSCALERS, SCALED_OBJECTS
from unisono.api.kinds import PODS
from unisono.api.quantity import parse_quantity
from unisono.api.resources import to_wire
from unisono.api.selecting import selector_text
from unisono.api.times import rfc3339
from unisono.controllers.autoscaling.reading import NotKnownYet, TriggerQuestion, Triggers, metric_name
from unisono.controllers.autoscaling.recommend import Measured, Memory, NoUse, Used, advise, amount_of, propose, used_of
from unisono.controllers.metrics import MetricError
from unisono.controllers.objects import LastWritten, to_json, write_status
from unisono.controllers.recorder import Recorder
from unisono.errors import ApiError, NotFound
from unisono.kube.client import Client
from unisono.kube.controller import Context, Controller

# What autoscalers scale: any object of a served kind that has replicas.


@dataclass(frozen=True, slots=True)
class ScaledTarget:
    """An object with replicas.

    Attributes:
        replicas: as its specification says; 1 where it says nothing.
        present: pods that it has, as its status says.
    """

    kind: Kind[Any]
    obj: Object
    replicas: int
    present: int


def scalable(api_version: str | None, kind: str) -> Kind[Any] | None:
    """The kind of a reference, if it can be scaled; without a version the first of that name."""
    if api_version:
        scaled_kind = kinds.find(api_version, kind)
        return scaled_kind if scaled_kind is not None and scaled_kind.scale is not None else None
    return next((each for each in kinds.ALL_KINDS if each.kind == kind and each.scale is not None), None)


async def find(client: Client, namespace: str, api_version: str | None, kind: str, name: str) -> ScaledTarget:
    """The object that a reference names.

    Raises:
        NotFound: there is none, or its kind has no replicas.
    """
    scaled_kind = scalable(api_version, kind)
    if scaled_kind is None or scaled_kind.scale is None:
        raise NotFound(f"{kind} of {api_version or 'any version'} is no kind that can be scaled here")
    obj = await client.get(scaled_kind, name, namespace)
    value = to_json(obj)
    replicas = _at(value, scaled_kind.scale.spec_replicas)
    return ScaledTarget(
        scaled_kind, obj, 1 if replicas is None else replicas, _at(value, scaled_kind.scale.status_replicas) or 0
    )


async def scale(client: Client, target: ScaledTarget, replicas: int) -> None:
    """Give the object other replicas.

    Raises:
        Conflict: it has changed since it was read.
    """
    assert target.kind.scale is not None
    meta = target.obj.metadata
    patch: dict[str, Any] = {"metadata": {"resourceVersion": meta.resource_version}}
    at = patch
    *above, last = target.kind.scale.spec_replicas.strip(".").split(".")
    for part in above:
        at = at.setdefault(part, {})
    at[last] = replicas
    await client.patch(target.kind, meta.name, patch, namespace=meta.namespace)


def selector_of(target: ScaledTarget) -> str:
    """The label selector of the pods of an object, as text; empty where its kind or its status names none."""
    assert target.kind.scale is not None
    value: Any = to_json(target.obj)
    for part in target.kind.scale.selector.strip(".").split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, dict):
        plain = not value.keys() <= {"matchLabels", "matchExpressions"}
        return selector_text(msgspec.convert({"matchLabels": value} if plain else value, LabelSelector))
    return value if isinstance(value, str) else ""


def _at(value: Any, path: str) -> int | None:
    for part in path.strip(".").split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value if isinstance(value, int) else None


# What the pods of a target use, as ``metrics.k8s.io`` tells.


async def read_use(
    client: Client,
    namespace: str,
    target: ScaledTarget,
    source: ResourceMetricSource | None,
    container: ContainerResourceMetricSource | None,
) -> tuple[Used, MetricStatus]:
    """What the pods use, and what to show of it; one of the two sources is given.

    Raises:
        MetricError: it cannot be known, or cannot be compared with the target.
    """
    given = source or container
    assert given is not None
    selector = selector_of(target)
    if not selector:
        raise MetricError("selector is required")
    try:
        pods = (await client.list(PODS, namespace, label_selector=selector)).items
        metrics = (await client.list(POD_METRICS, namespace, label_selector=selector)).items
    except ApiError as error:
        raise MetricError(f"unable to get metrics for resource {given.name}: {error}") from error
    percent, average = given.target.average_utilization, given.target.average_value
    try:
        amount = amount_of(given.name, str(average)) if percent is None and average is not None else None
        if percent is None and amount is None:
            raise NoUse("it states neither averageUtilization nor averageValue")
        use = used_of(
            pods,
            {each.key: each for each in metrics},
            given.name,
            container=container.container if container is not None else "",
            percent=percent,
            amount=amount,
        )
    except NoUse as error:
        raise MetricError(str(error)) from error
    mean = use.total // max(use.measured, 1)
    value = MetricValueStatus(average_value=to_wire({given.name: mean})[given.name])
    if percent is not None:
        requested = sum(pod.wanted for pod in use.pods if pod.used is not None)
        value.average_utilization = round(use.total / max(requested, 1e-9) * percent)
    if container is not None:
        shown = ContainerResourceMetricStatus(name=given.name, current=value, container=container.container)
        return use, MetricStatus(type="ContainerResource", container_resource=shown)
    return use, MetricStatus(type="Resource", resource=ResourceMetricStatus(name=given.name, current=value))


# Metrics for which an autoscaler names the query itself, by annotations.
#
# The form is that of kube-metrics-adapter, for the types external, object and pods:
# ``metric-config.TYPE.NAME.prometheus/query`` and ``metric-config.TYPE.NAME.prometheus/prometheus-server``.

QUERY, SERVER = "query", "prometheus-server"


def identifier_of(metric: MetricSpec) -> MetricIdentifier | None:
    """The metric that a specification of type External, Object or Pods names."""
    source = {"External": metric.external, "Object": metric.object, "Pods": metric.pods}.get(metric.type)
    return source.metric if source is not None else None


def own_question(autoscaler: HorizontalPodAutoscaler, metric: MetricSpec) -> TriggerQuestion | None:
    """The query that the annotations give for a metric; None where they give none.

    Raises:
        MetricError: there is a query, and no server for it.
    """
    named = identifier_of(metric)
    if named is None:
        return None
    notes = autoscaler.metadata.annotations or {}
    prefix = f"metric-config.{metric.type.lower()}.{named.name}.prometheus/"
    query, server = notes.get(prefix + QUERY), notes.get(prefix + SERVER, "")
    if query is None:
        return None
    if not server.startswith(("http://", "https://")):
        raise MetricError(f"the annotation {prefix}{SERVER} must be a URL such as http://prometheus:9090")
    if len(query) > LONGEST_QUERY:
        raise MetricError(f"the annotation {prefix}{QUERY} is longer than {LONGEST_QUERY} characters")
    return TriggerQuestion(server, query)


def target_of(metric: MetricSpec) -> MetricTarget:
    """What the metric should be."""
    source = metric.external or metric.object or metric.pods
    return source.target if source is not None else MetricTarget()


def measured(metric: MetricSpec, value: float) -> Measured:
    """A value as the recommendation counts it; for type Pods it is that of all pods together."""
    target = target_of(metric)
    average = target.average_value is not None
    quantity = target.average_value if average else target.value
    return Measured(value, max(float(parse_quantity(quantity or 1)), 1e-9), average)


def status_of(metric: MetricSpec, current: MetricValueStatus) -> MetricStatus:
    """The present value, as the autoscaler's status shows it."""
    named = identifier_of(metric) or MetricIdentifier()
    if metric.object is not None:
        object_status = ObjectMetricStatus(
            metric=named, current=current, described_object=metric.object.described_object
        )
        return MetricStatus(type="Object", object=object_status)
    if metric.pods is not None:
        return MetricStatus(type="Pods", pods=PodsMetricStatus(metric=named, current=current))
    return MetricStatus(type="External", external=ExternalMetricStatus(metric=named, current=current))


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
        conditions: Conditions = {}
        status = HorizontalPodAutoscalerStatus(
            observed_generation=autoscaler.metadata.generation,
            last_scale_time=autoscaler.status.last_scale_time,
            current_metrics=autoscaler.status.current_metrics,
        )
        namespace = autoscaler.metadata.namespace or ""
        try:
            target = await find(self._client, namespace, reference.api_version, reference.kind, reference.name)
        except NotFound as error:
            conditions["AbleToScale"] = False, "FailedGetScale", f"cannot read the target's scale: {error}"
            self._recorder.event(autoscaler, "Warning", "FailedGetScale", str(error))
            return self._with(status, autoscaler, conditions)
        conditions["AbleToScale"] = True, "SucceededGetScale", "the target's scale can be read"
        status.current_replicas = target.present
        current, least = target.replicas, spec.min_replicas or 1
        desired, why = current, ""
        if current == 0:
            text = "scaling is disabled since the replica count of the target is zero"
            conditions["ScalingActive"] = False, "ScalingDisabled", text
        elif current > spec.max_replicas:
            desired, why = spec.max_replicas, "current number of replicas above Spec.MaxReplicas"
        elif current < least:
            desired, why = least, "current number of replicas below Spec.MinReplicas"
        else:
            desired, why = await self._by_metrics(autoscaler, target, status, conditions)
        if desired != current:
            await self._scale(autoscaler, target, desired, why, status, conditions)
        status.desired_replicas = desired
        return self._with(status, autoscaler, conditions)

    async def _by_metrics(
        self,
        autoscaler: HorizontalPodAutoscaler,
        target: ScaledTarget,
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
                one, metric_status = await self._measure(autoscaler, metric, target)
            except NotKnownYet:
                unknown = True
                continue
            except MetricError as error:
                measured.append(None)
                trouble = trouble or (f"FailedGet{metric.type}Metric", str(error))
                continue
            measured.append(one)
            shown.append(metric_status)
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
        self, autoscaler: HorizontalPodAutoscaler, metric: MetricSpec, target: ScaledTarget
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
        target: ScaledTarget,
        wanted: int,
        why: str,
        status: HorizontalPodAutoscalerStatus,
        found: Conditions,
    ) -> None:
        await scale(self._client, target, wanted)
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
    names = []
    for each in shown:
        source = each.external or each.object or each.pods
        named = source.metric if source is not None else each.resource or each.container_resource
        names.append(named.name if named is not None else "")
    return ", ".join(filter(None, names)) or "metrics"


def _text(value: float) -> str:
    """A quantity in thousandths."""
    return f"{round(value * 1000)}m" if value % 1 else str(int(value))


def _worth_a_look(event_type: str, new: Any, old: Any) -> bool:
    """Own writes of the status are no reason to look again."""
    return old is None or event_type != "MODIFIED" or new.spec != old.spec or new.metadata.uid != old.metadata.uid
