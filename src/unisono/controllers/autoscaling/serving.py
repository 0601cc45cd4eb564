"""Knative's Services on one machine: a Deployment, a Service and an autoscaler for each."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from unisono.api import keys, knative
from unisono.api.annotations import SERVICE_ADDRESS
from unisono.api.base import Condition, LabelSelector, ObjectMeta
from unisono.api.core import EnvVar, PodSpec, Service
from unisono.api.core.pod import PodTemplateSpec
from unisono.api.core.service import ServicePort, ServiceSpec
from unisono.api.groups import autoscaling
from unisono.api.groups.apps import Deployment, DeploymentSpec
from unisono.api.keda import number
from unisono.api.kind_families import DEPLOYMENTS, HORIZONTAL_POD_AUTOSCALERS, KNATIVE_SERVICES
from unisono.api.kinds import SERVICES
from unisono.api.times import rfc3339
from unisono.controllers.objects import BeingDeleted, ForeignObject, LastWritten, ensure, write_status
from unisono.controllers.owners import controller_of_kind, owned_by
from unisono.controllers.recorder import Recorder
from unisono.errors import NotFound
from unisono.kube.controller import Context, Controller

# What a Knative Service is made of: a Deployment, a Service and, where its load decides, an autoscaler (pure).

_CPU_PERCENT = 80


def url_of(service: knative.KnativeService) -> str:
    """Where it is reached."""
    return f"http://{service.metadata.name}.{service.metadata.namespace}.svc.cluster.local"


def bounds_of(service: knative.KnativeService) -> tuple[int, int]:
    """Fewest and most replicas by the use of resources; one at least runs, as nothing else can be measured."""
    notes = service.spec.template.metadata.annotations or {}
    least, most = (
        knative.stated(notes, keys.KNATIVE_LEAST, 1),
        knative.stated(notes, keys.KNATIVE_MOST, knative.MOST_REPLICAS),
    )
    return max(least, 1), max(most, least, 1)


def _meta(service: knative.KnativeService, name: str) -> ObjectMeta:
    return ObjectMeta(
        name=name,
        namespace=service.metadata.namespace,
        labels={keys.KNATIVE_SERVICE: service.metadata.name, keys.KNATIVE_REVISION: knative.revision_of(service)},
        owner_references=[owned_by(KNATIVE_SERVICES, service)],
    )


def deployment_of(service: knative.KnativeService) -> Deployment:
    """The pods; how many there are is left to the autoscaler."""
    template, name = service.spec.template, service.metadata.name
    fields = {key: getattr(template.spec, key) for key in PodSpec.__struct_fields__}
    revision = knative.revision_of(service)
    own = [
        EnvVar(name="PORT", value=str(knative.port_of(service))),
        EnvVar(name="K_REVISION", value=revision),
        EnvVar(name="K_CONFIGURATION", value=name),
        EnvVar(name="K_SERVICE", value=name),
    ]
    # The objects of caches are not changed.
    fields["containers"] = [replace(each, env=[*own, *(each.env or ())]) for each in template.spec.containers or ()]
    spec = PodSpec(**fields)
    selector = {keys.KNATIVE_SERVICE: name}
    labels = {**(template.metadata.labels or {}), **selector, keys.KNATIVE_REVISION: revision}
    pods = PodTemplateSpec(metadata=ObjectMeta(labels=labels, annotations=template.metadata.annotations), spec=spec)
    deployment_spec = DeploymentSpec(selector=LabelSelector(match_labels=selector), template=pods)
    return Deployment(metadata=_meta(service, f"{name}-deployment"), spec=deployment_spec)


def service_of(service: knative.KnativeService) -> Service:
    """The name under which the pods are reached, at port 80."""
    port = ServicePort(name="http", port=80, target_port=knative.port_of(service))
    spec = ServiceSpec(ports=[port], selector={keys.KNATIVE_SERVICE: service.metadata.name})
    return Service(metadata=_meta(service, service.metadata.name), spec=spec)


def autoscaler_of(service: knative.KnativeService) -> autoscaling.HorizontalPodAutoscaler:
    """By the use of the processor, with Knative's annotations ``metric`` and ``target``."""
    notes = service.spec.template.metadata.annotations or {}
    least, most = bounds_of(service)
    metric = notes.get(keys.KNATIVE_METRIC, "cpu")
    target = int(number(notes.get(keys.KNATIVE_TARGET, "")) or _CPU_PERCENT)
    resource = autoscaling.MetricTarget(type="Utilization", average_utilization=max(target, 1))
    if metric == "memory":
        resource = autoscaling.MetricTarget(type="AverageValue", average_value=f"{target}Mi")
    source = autoscaling.ResourceMetricSource(name="memory" if metric == "memory" else "cpu", target=resource)
    spec = autoscaling.HorizontalPodAutoscalerSpec(
        scale_target_ref=autoscaling.CrossVersionObjectReference(
            kind="Deployment", name=f"{service.metadata.name}-deployment", api_version="apps/v1"
        ),
        min_replicas=least,
        max_replicas=most,
        metrics=[autoscaling.MetricSpec(type="Resource", resource=source)],
    )
    return autoscaling.HorizontalPodAutoscaler(metadata=_meta(service, service.metadata.name), spec=spec)


class ServingController(Controller):
    """Acts on Knative's Services where Knative does not."""

    name = "knative-service-controller"
    workers = 2

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._written: LastWritten[knative.KnativeService] = LastWritten()

    def setup(self, context: Context) -> None:
        """Watch Services, and their Deployments for how far they are."""
        self._services = context.watch(KNATIVE_SERVICES, when=_worth_a_look)
        self._deployments = context.watch(DEPLOYMENTS, keys=_owner)
        self._addresses = context.watch(SERVICES, keys=_owner)

    async def reconcile(self, key: str) -> float | None:
        """Make what is missing, and tell how far it is."""
        service = self._written.newest(key, self._services.get(key))
        if service is None or service.metadata.deletion_timestamp:
            return None
        desired: list[tuple[Any, Any]] = [(DEPLOYMENTS, deployment_of(service)), (SERVICES, service_of(service))]
        notes = service.spec.template.metadata.annotations or {}
        if notes.get(keys.KNATIVE_CLASS) == knative.HPA_CLASS:
            desired.append((HORIZONTAL_POD_AUTOSCALERS, autoscaler_of(service)))
        trouble = ""
        for kind, obj in desired:
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

    def _status(self, service: knative.KnativeService, trouble: str) -> knative.ServingStatus:
        meta, revision = service.metadata, knative.revision_of(service)
        target = self._deployments.get(f"{meta.namespace}/{meta.name}-deployment")
        available = target is not None and bool(target.status.available_replicas)
        if target is not None and target.spec.replicas == 0 and service.status.latest_ready_revision_name == revision:
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
        return knative.ServingStatus(
            observed_generation=meta.generation,
            conditions=conditions,
            latest_created_revision_name=revision,
            latest_ready_revision_name=ready,
            url=url,
            address=knative.Addressable(url=inside),
            traffic=[knative.TrafficTarget(latest_revision=True, percent=100, revision_name=ready)] if ready else None,
        )


def _owner(obj: Any) -> list[str]:
    reference = controller_of_kind(KNATIVE_SERVICES, obj)
    return [f"{obj.metadata.namespace}/{reference.name}"] if reference is not None else []


def _worth_a_look(event_type: str, new: Any, old: Any) -> bool:
    """Own writes of the status are no reason to look again."""
    return old is None or event_type != "MODIFIED" or new.metadata.generation != old.metadata.generation
