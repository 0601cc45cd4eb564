"""KEDA's ScaledObjects: an autoscaler for each, which wakes and rests as its triggers say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from unisono.api.base import Condition, LabelSelector, ObjectMeta
from unisono.api.groups.autoscaling import (
    CrossVersionObjectReference,
    ExternalMetricSource,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerSpec,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    ResourceMetricSource,
)
from unisono.api.keda import CRON, REDIS, ScaledObject, ScaledObjectStatus, ScaleTrigger, number, of_metric
from unisono.api.keys import KEDA_PAUSED, KEDA_PAUSED_REPLICAS, SCALED_OBJECT
from unisono.api.kind_families import HORIZONTAL_POD_AUTOSCALERS, SCALED_OBJECTS
from unisono.api.times import parse_time, rfc3339
from unisono.controllers.autoscaling import autoscaler
from unisono.controllers.autoscaling.reading import NotKnownYet, Triggers, by_resource, metric_name
from unisono.controllers.metrics import MetricError
from unisono.controllers.objects import BeingDeleted, ForeignObject, LastWritten, delete_owned, ensure, write_status
from unisono.controllers.owners import owned_by
from unisono.controllers.recorder import Recorder
from unisono.errors import NotFound
from unisono.kube.controller import Context, Controller

# What becomes of a ScaledObject: its autoscaler, and whether its target runs at all (pure).

POLLING_SECONDS, COOLDOWN_SECONDS, MOST_REPLICAS = 30.0, 300.0, 100
_DEFAULT_TARGET: Final = ("apps/v1", "Deployment")


def target_of(scaled: ScaledObject) -> tuple[str | None, str]:
    """Version and kind of what is scaled."""
    reference = scaled.spec.scale_target_ref
    if reference.kind is None and reference.api_version is None:
        return _DEFAULT_TARGET
    return reference.api_version, reference.kind or _DEFAULT_TARGET[1]


def bounds_of(scaled: ScaledObject) -> tuple[int, int]:
    """Fewest and most replicas."""
    spec = scaled.spec
    most = MOST_REPLICAS if spec.max_replica_count is None else spec.max_replica_count
    return spec.min_replica_count or 0, most


def paused_at(scaled: ScaledObject) -> int | None:
    """The replicas at which it is held; -1 for those that there are; None where it is not paused."""
    notes = scaled.metadata.annotations or {}
    held = number(notes.get(KEDA_PAUSED_REPLICAS, ""))
    if held is not None:
        return int(held)
    return -1 if notes.get(KEDA_PAUSED, "false") == "true" else None


def autoscaler_of(scaled: ScaledObject) -> HorizontalPodAutoscaler:
    """The HorizontalPodAutoscaler that works for it while its target runs."""
    least, most = bounds_of(scaled)
    version, kind = target_of(scaled)
    config = scaled.spec.advanced.horizontal_pod_autoscaler_config if scaled.spec.advanced else None
    name = (config.name if config else None) or f"keda-hpa-{scaled.metadata.name}"
    meta = ObjectMeta(
        name=name,
        namespace=scaled.metadata.namespace,
        labels={SCALED_OBJECT: scaled.metadata.name, "app.kubernetes.io/managed-by": "keda-operator"},
        owner_references=[owned_by(SCALED_OBJECTS, scaled)],
    )
    reference = CrossVersionObjectReference(kind=kind, name=scaled.spec.scale_target_ref.name, api_version=version)
    spec = HorizontalPodAutoscalerSpec(
        scale_target_ref=reference,
        min_replicas=max(least, 1),
        max_replicas=max(most, 1),
        metrics=[_metric(scaled, at, trigger) for at, trigger in enumerate(scaled.spec.triggers)],
        behavior=config.behavior if config else None,
    )
    return HorizontalPodAutoscaler(metadata=meta, spec=spec)


def _metric(scaled: ScaledObject, at: int, trigger: ScaleTrigger) -> MetricSpec:
    if by_resource(trigger):
        value = trigger.metadata.get("value", "")
        target = MetricTarget(type="Utilization", average_utilization=int(number(value) or 1))
        if trigger.metric_type == "AverageValue":
            target = MetricTarget(type="AverageValue", average_value=value)
        return MetricSpec(type="Resource", resource=ResourceMetricSource(name=trigger.type, target=target))
    threshold = "1" if trigger.type == CRON else trigger.metadata.get("threshold", "1")
    if trigger.type == REDIS:
        threshold = _plain(of_metric(trigger, 0.0).target)
    target = MetricTarget(type="AverageValue", average_value=threshold)
    if trigger.metric_type == "Value":
        target = MetricTarget(type="Value", value=threshold)
    selector = LabelSelector(match_labels={SCALED_OBJECT: scaled.metadata.name})
    identifier = MetricIdentifier(name=metric_name(at, trigger), selector=selector)
    return MetricSpec(type="External", external=ExternalMetricSource(metric=identifier, target=target))


def _plain(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


@dataclass(frozen=True, slots=True)
class Step:
    """What to do with the target.

    Attributes:
        replicas: give it so many; None: leave it to the autoscaler.
        active: some trigger needs it.
    """

    replicas: int | None
    active: bool


def step(scaled: ScaledObject, replicas: int, active: Sequence[bool | None], now: float) -> Step:
    """Wake the target, let it be, or put it to rest.

    Args:
        scaled: the ScaledObject with its status.
        replicas: of the target now.
        active: what each trigger says; None where it says nothing.
        now: seconds since 1970.
    """
    held = paused_at(scaled)
    needed = any(active) or None in active  # what is not known must not put to rest what serves
    if held is not None:
        return Step(held if held not in (-1, replicas) else None, needed)
    least, most = bounds_of(scaled)
    idle = scaled.spec.idle_replica_count
    rest = idle if idle is not None else least
    if any(active):
        return Step(min(max(least, 1), most) if replicas < max(least, 1) else None, active=True)
    if needed:
        return Step(None, active=True)
    if rest >= max(least, 1) or replicas == rest:
        return Step(rest if replicas < rest else None, active=False)
    cooldown = COOLDOWN_SECONDS if scaled.spec.cooldown_period is None else float(scaled.spec.cooldown_period)
    last = scaled.status.last_active_time or scaled.metadata.creation_timestamp or ""
    since = parse_time(last) if last else now
    if replicas > rest and now - since < cooldown:
        return Step(None, active=False)
    return Step(rest, active=False)


class ScaledObjectController(Controller):
    """Acts on ScaledObjects where KEDA does not."""

    name = "scaled-object-controller"
    workers = 4

    def __init__(self, recorder: Recorder, triggers: Triggers) -> None:
        self._recorder, self._triggers = recorder, triggers
        self._written: LastWritten[ScaledObject] = LastWritten()

    def setup(self, context: Context) -> None:
        """Watch ScaledObjects; an autoscaler that is missing is made again at the next look."""
        self._scaled = context.watch(SCALED_OBJECTS, when=_worth_a_look)

    async def reconcile(self, key: str) -> float | None:
        """One look at the triggers of one ScaledObject."""
        scaled = self._written.newest(key, self._scaled.get(key))
        if scaled is None or scaled.metadata.deletion_timestamp:
            self._triggers.forget(key)
            return None
        namespace, (version, kind) = scaled.metadata.namespace or "", target_of(scaled)
        name = scaled.spec.scale_target_ref.name
        try:
            target = await autoscaler.find(self._client, namespace, version, kind, name)
            if paused_at(scaled) is None:
                await ensure(self._client, HORIZONTAL_POD_AUTOSCALERS, autoscaler_of(scaled))
            else:
                await delete_owned(self._client, HORIZONTAL_POD_AUTOSCALERS, autoscaler_of(scaled))
        except BeingDeleted:
            return 1.0
        except (NotFound, ForeignObject) as error:
            self._recorder.event(scaled, "Warning", "ScaledObjectCheckFailed", str(error))
            await self._tell(scaled, [_condition("Ready", False, "ScaledObjectCheckFailed", str(error))])
            return self._pause(scaled)
        answers = self._ask(scaled)
        if answers is None:
            return self._pause(scaled)
        active, troubles = answers
        what = step(scaled, target.replicas, active, self._clock.time())
        if what.replicas is not None:
            await autoscaler.scale(self._client, target, what.replicas)
            reason = "KEDAScaleTargetActivated" if what.replicas > target.replicas else "KEDAScaleTargetDeactivated"
            text = f"Scaled {kind} {namespace}/{name} from {target.replicas} to {what.replicas}"
            self._recorder.event(scaled, "Normal", reason, text)
        ready = _condition("Ready", True, "ScaledObjectReady", "ScaledObject is defined correctly and is ready")
        if troubles:
            self._recorder.event(scaled, "Warning", "KEDAScalerFailed", troubles[0])
            ready = _condition("Ready", False, "TriggerError", "; ".join(troubles))
        await self._tell(scaled, [ready, *self._states(scaled, active=what.active)], active=what.active, kind=kind)
        return self._pause(scaled)

    def _ask(self, scaled: ScaledObject) -> tuple[list[bool | None], list[str]] | None:
        """Whether each trigger is active, and what is wrong with those that cannot say; None: not known yet."""
        again = partial(self._context.enqueue, scaled.key)
        unknown = False
        active: list[bool | None] = []
        troubles = []
        for at, trigger in enumerate(scaled.spec.triggers):
            if by_resource(trigger):
                active.append(True)  # the use of pods that are not there says nothing
                continue
            try:
                active.append(self._triggers.read(scaled, at, self._clock.time(), again).active)
            except NotKnownYet:
                unknown = True
            except MetricError as error:
                active.append(None)
                troubles.append(f"trigger {metric_name(at, trigger)}: {error}")
        return None if unknown else (active, troubles)

    def _states(self, scaled: ScaledObject, *, active: bool) -> list[Condition]:
        doing = ("ScalerActive", "Scaling is performed because triggers are active")
        resting = ("ScalerNotActive", "Scaling is not performed because triggers are not active")
        falls = self._triggers.falls_back(scaled)
        fallback = ("FallbackExists", "At least one trigger is falling back on this scaled object")
        none = ("NoFallbackFound", "No fallbacks are active on this scaled object")
        held = paused_at(scaled) is not None
        paused = ("ScaledObjectPaused", "pause annotation found")
        free = ("ScaledObjectUnpaused", "pause annotation removed")
        return [
            _condition("Active", active, *(doing if active else resting)),
            _condition("Fallback", falls, *(fallback if falls else none)),
            _condition("Paused", held, *(paused if held else free)),
        ]

    async def _tell(
        self, scaled: ScaledObject, conditions: list[Condition], *, active: bool = False, kind: str = ""
    ) -> None:
        now, before = rfc3339(self._clock.time()), {one.type: one for one in scaled.status.conditions or ()}
        for one in conditions:
            old = before.get(one.type)
            one.last_transition_time = old.last_transition_time if old and old.status == one.status else now
        version = target_of(scaled)[0]
        status = ScaledObjectStatus(
            scale_target_kind=f"{version}.{kind}" if kind else scaled.status.scale_target_kind,
            last_active_time=now if active else scaled.status.last_active_time,
            external_metric_names=[
                metric_name(at, trigger) for at, trigger in enumerate(scaled.spec.triggers) if not by_resource(trigger)
            ]
            or None,
            hpa_name=autoscaler_of(scaled).metadata.name,
            triggers_types=",".join(sorted({trigger.type for trigger in scaled.spec.triggers})),
            conditions=conditions,
        )
        try:
            self._written.keep(await write_status(self._client, SCALED_OBJECTS, scaled, status))
        except NotFound:
            return

    @staticmethod
    def _pause(scaled: ScaledObject) -> float:
        return POLLING_SECONDS if scaled.spec.polling_interval is None else float(max(scaled.spec.polling_interval, 1))


def _condition(kind: str, true: bool, reason: str, message: str) -> Condition:
    return Condition(type=kind, status="True" if true else "False", reason=reason, message=message)


def _worth_a_look(event_type: str, new: Any, old: Any) -> bool:
    """Own writes of the status are no reason to look again."""
    return (
        old is None
        or event_type != "MODIFIED"
        or (new.spec, new.metadata.annotations) != (old.spec, old.metadata.annotations)
    )
