"""Objects that a controller cannot work on: an event and a condition that name the cause, and a count by controller.

One hostile or damaged object is its owner's affair. The controller tries it again when it changes, and with growing
pauses in between; all other objects go on.
"""

from __future__ import annotations

from typing import Any

import msgspec
from prometheus_client import CollectorRegistry, Counter

from unisono.api.base import Object
from unisono.api.documents import Json
from unisono.api.groups.batch import Job
from unisono.api.kind import Kind
from unisono.api.pod_limit import MOST_PODS
from unisono.api.times import rfc3339
from unisono.controllers.job import view
from unisono.controllers.objects import to_json
from unisono.controllers.recorder import Recorder
from unisono.errors import Conflict, NotFound, SetAside
from unisono.jobkinds.registry import pods_of, too_many
from unisono.kube.client import Client
from unisono.kube.clock import SYSTEM_CLOCK, Clock

CONDITION = "ReconcileFailed"
# Objects of which it is remembered what they were told last.
_REMEMBERED = 4096
# Longest text of a cause: it may quote the object.
_LONGEST = 1024


class TooManyPods(SetAside):
    """The object asks for more pods than one object may."""

    reason = "TooManyPods"


class ObjectKeeper:
    """Tells owners about their objects; ``kube.controller.Manager`` asks it about every key."""

    def __init__(
        self,
        client: Client,
        recorder: Recorder,
        *,
        most_pods: int = MOST_PODS,
        registry: CollectorRegistry | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Make one for all controllers of a manager.

        Args:
            client: writes conditions.
            recorder: records events.
            most_pods: pods that one object may ask for.
            registry: gets the metric.
            clock: dates conditions.
        """
        self._client, self._recorder, self._clock, self._most = client, recorder, clock, most_pods
        # By object and controller: the cause that was told last.
        self._told: dict[tuple[str, str], str] = {}
        self._count = Counter(
            "unisono_controller_set_aside",
            "Tries at an object that the controller could not work on, by controller.",
            ["controller"],
            registry=registry,
        )

    def check(self, obj: Object) -> None:
        """Refuse an object that asks for too many pods, unless it is on its way out.

        Raises:
            TooManyPods: it does.
        """
        if obj.metadata.deletion_timestamp is None:
            why = too_many(pods_of(obj), self._most)
            if why:
                raise TooManyPods(f"{type(obj).__name__} {obj.key} {why}.")

    async def set_aside(self, controller: str, kind: Kind[Any], obj: Object, error: Exception) -> None:
        """Count the try, and tell the owner what is wrong: once for each cause."""
        self._count.labels(controller).inc()
        by_all = isinstance(error, TooManyPods)
        reason = error.reason if isinstance(error, SetAside) else CONDITION
        text = str(error) if isinstance(error, SetAside) else f"{type(error).__name__}: {error}"
        text = (text if by_all else f"{controller}: {text}")[:_LONGEST]
        place = obj.metadata.uid or "", "" if by_all else controller
        if self._told.get(place) != text:
            self._told.pop(place, None)
            self._told[place] = text
            if len(self._told) > _REMEMBERED:
                del self._told[next(iter(self._told))]
            self._recorder.event(obj, "Warning", reason, text)
        await self._write(kind, obj, _marked(obj, reason, text, rfc3339(self._clock.time())))

    async def settled(self, controller: str, kind: Kind[Any], obj: Object) -> None:
        """Take back the condition that the controller gave the object; others that look at it keep theirs."""
        uid = obj.metadata.uid or ""
        self._told.pop((uid, ""), None)
        self._told.pop((uid, controller), None)
        status = getattr(obj, "status", None)
        old = getattr(status, "conditions", None) or ()
        kept = [each for each in old if not _is_over(each, controller)]
        if len(kept) < len(old):
            await self._write(kind, obj, {"conditions": [to_json(each) for each in kept] or None})

    async def _write(self, kind: Kind[Any], obj: Object, status: Json) -> None:
        if not status:
            return
        meta = obj.metadata
        patch = {"metadata": {"resourceVersion": meta.resource_version}, "status": status}
        sub = "status" if kind.status_subresource else ""
        try:
            await self._client.patch(kind, meta.name, patch, namespace=meta.namespace, subresource=sub)
        except (Conflict, NotFound):
            # It has changed, or is gone: the next try sees it as it is now.
            return


def _is_over(condition: Any, controller: str) -> bool:
    """Whether the condition says that this controller, or any, could not work on the object, which it now could."""
    if getattr(condition, "type", "") != CONDITION:
        return False
    return condition.reason == TooManyPods.reason or (condition.message or "").startswith(f"{controller}: ")


def _marked(obj: Object, reason: str, text: str, time: str) -> Json:
    """Patch of a status that tells the cause; empty where it does already, or where the kind has no place for it."""
    status = getattr(obj, "status", None)
    if isinstance(obj, Job):
        state = obj.status.state
        if (state.reason, state.message) == (reason, text):
            return {}
        return {"state": {"phase": state.phase or view.PENDING, "reason": reason, "message": text}}
    if status is None or not hasattr(status, "conditions"):
        return {}
    entry = {"type": CONDITION, "status": "True", "reason": reason, "message": text, "lastTransitionTime": time}
    old = [to_json(each) for each in status.conditions or ()]
    before = next((each for each in old if each.get("type") == CONDITION), None)
    if before is not None:
        if (before.get("reason"), before.get("message")) == (reason, text):
            return {}
        entry["lastTransitionTime"] = before.get("lastTransitionTime") or time
    conditions = [*(each for each in old if each.get("type") != CONDITION), entry]
    try:
        read = msgspec.convert({"conditions": conditions}, type(status)).conditions
    except msgspec.ValidationError:
        return {}
    # A kind whose conditions have other fields would be stored without what they say.
    return {"conditions": conditions} if getattr(read[-1], "message", None) == text else {}
