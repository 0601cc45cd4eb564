"""Knative's Services on one machine: a Deployment, a Service and an autoscaler for each."""

from __future__ import annotations

from typing import Any

from unisono.api.annotations import SERVICE_ADDRESS
from unisono.api.base import Condition
from unisono.api.keys import KNATIVE_CLASS
from unisono.api.kind_families import DEPLOYMENTS, HORIZONTAL_POD_AUTOSCALERS, KNATIVE_SERVICES
from unisono.api.kinds import SERVICES
from unisono.api.knative import HPA_CLASS, Addressable, KnativeService, ServingStatus, TrafficTarget, revision_of
from unisono.api.times import rfc3339
from unisono.controllers.autoscaling.serving_objects import (
    autoscaler_of,
    deployment_of,
    service_of,
    url_of,
)
from unisono.controllers.objects import BeingDeleted, ForeignObject, ensure
from unisono.controllers.owners import controller_of_kind
from unisono.controllers.recorder import Recorder
from unisono.controllers.statuses import LastWritten, write_status
from unisono.errors import NotFound
from unisono.kube.controller import Context, Controller


class ServingController(Controller):
    """Acts on Knative's Services where Knative does not."""

    name = "knative-service-controller"
    workers = 2

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._written: LastWritten[KnativeService] = LastWritten()

    def setup(self, context: Context) -> None:
        """Watch Services, and their Deployments for how far they are."""
        self._client, self._clock = context.client, context.clock
        self._services = context.watch(KNATIVE_SERVICES, when=_worth_a_look)
        self._deployments = context.watch(DEPLOYMENTS, keys=_owner)
        self._addresses = context.watch(SERVICES, keys=_owner)

    async def reconcile(self, key: str) -> float | None:
        """Make what is missing, and tell how far it is."""
        service = self._written.newest(key, self._services.get(key))
        if service is None or service.metadata.deletion_timestamp:
            return None
        wanted: list[tuple[Any, Any]] = [(DEPLOYMENTS, deployment_of(service)), (SERVICES, service_of(service))]
        notes = service.spec.template.metadata.annotations or {}
        if notes.get(KNATIVE_CLASS) == HPA_CLASS:
            wanted.append((HORIZONTAL_POD_AUTOSCALERS, autoscaler_of(service)))
        trouble = ""
        for kind, obj in wanted:
            try:
                await ensure(self._client, kind, obj)
            except BeingDeleted:
                return 1.0
            except ForeignObject as error:
                trouble = str(error)
                self._recorder.event(service, "Warning", "InternalError", trouble)
                break
        try:
            written = await write_status(self._client, KNATIVE_SERVICES, service, self._status(service, trouble))
            self._written.keep(written)
        except NotFound:
            return None
        return None

    def _status(self, service: KnativeService, trouble: str) -> ServingStatus:
        meta, revision = service.metadata, revision_of(service)
        found = self._deployments.get(f"{meta.namespace}/{meta.name}-deployment")
        available = found is not None and bool(found.status.available_replicas)
        if found is not None and found.spec.replicas == 0 and service.status.latest_ready_revision_name == revision:
            # It rests until a request wakes it.
            available = True
        reason, message = "", ""
        if trouble:
            reason, message = "NotOwned", trouble
        elif not available:
            reason, message = "Deploying", f"no pod of revision {revision} is available yet"
        state = "True" if available and not trouble else "False" if trouble else "Unknown"
        before = {each.type: each for each in service.status.conditions or ()}
        conditions = []
        for kind in ("ConfigurationsReady", "Ready", "RoutesReady"):
            old = before.get(kind)
            since = old.last_transition_time if old and old.status == state else rfc3339(self._clock.time())
            one = Condition(type=kind, status=state, last_transition_time=since)
            one.reason, one.message = reason or None, message or None
            conditions.append(one)
        ready = revision if state == "True" else service.status.latest_ready_revision_name
        inside = url_of(service)
        named = self._addresses.get(service.key)
        taken = (named.metadata.annotations or {}).get(SERVICE_ADDRESS) if named is not None else None
        url = f"http://{taken.removesuffix(':80')}" if taken else inside
        return ServingStatus(
            observed_generation=meta.generation,
            conditions=conditions,
            latest_created_revision_name=revision,
            latest_ready_revision_name=ready,
            url=url,
            address=Addressable(url=inside),
            traffic=[TrafficTarget(latest_revision=True, percent=100, revision_name=ready)] if ready else None,
        )


def _owner(obj: Any) -> list[str]:
    reference = controller_of_kind(KNATIVE_SERVICES, obj)
    return [f"{obj.metadata.namespace}/{reference.name}"] if reference is not None else []


def _worth_a_look(event_type: str, new: Any, old: Any) -> bool:
    """Own writes of the status are no reason to look again."""
    return old is None or event_type != "MODIFIED" or new.metadata.generation != old.metadata.generation
