"""KEDA's ScaledObjects: an autoscaler for each, which wakes and rests as its triggers say."""

from __future__ import annotations

from functools import partial
from typing import Any

from unisono.api.base import Condition
from unisono.api.keda import ScaledObject, ScaledObjectStatus
from unisono.api.kind_families import HORIZONTAL_POD_AUTOSCALERS, SCALED_OBJECTS
from unisono.api.times import rfc3339
from unisono.controllers.autoscaling import targets
from unisono.controllers.autoscaling.reading import NotKnownYet, Triggers, by_resource, metric_name
from unisono.controllers.autoscaling.scaled_decide import (
    POLLING_SECONDS,
    autoscaler_of,
    paused_at,
    step,
    target_of,
)
from unisono.controllers.metrics import MetricError
from unisono.controllers.objects import BeingDeleted, ForeignObject, delete_owned, ensure
from unisono.controllers.recorder import Recorder
from unisono.controllers.statuses import LastWritten, write_status
from unisono.errors import NotFound
from unisono.kube.controller import Context, Controller


class ScaledObjectController(Controller):
    """Acts on ScaledObjects where KEDA does not."""

    name = "scaled-object-controller"
    workers = 4

    def __init__(self, recorder: Recorder, triggers: Triggers) -> None:
        self._recorder, self._triggers = recorder, triggers
        self._written: LastWritten[ScaledObject] = LastWritten()

    def setup(self, context: Context) -> None:
        """Watch ScaledObjects; an autoscaler that is missing is made again at the next look."""
        self._client, self._clock, self._context = context.client, context.clock, context
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
            target = await targets.find(self._client, namespace, version, kind, name)
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
        told = self._ask(scaled)
        if told is None:
            return self._pause(scaled)
        active, troubles = told
        what = step(scaled, target.replicas, active, self._clock.time())
        if what.replicas is not None:
            await targets.scale(self._client, target, what.replicas)
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
        or (new.spec, new.metadata.annotations)
        != (
            old.spec,
            old.metadata.annotations,
        )
    )
