"""Nodes for whole gangs, asked of the cluster autoscaler by ProvisioningRequests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

import msgspec

from unisono.api.annotations import BACKOFF_UNTIL, BOOT_SECONDS, PRICE, PROVISION_FAILURES, PROVISION_RETRIES, SCALED_AT
from unisono.api.base import ObjectMeta
from unisono.api.core import Node, Pod, PodTemplateSpec, Taint
from unisono.api.groups import autoscaling
from unisono.api.groups.scheduling import PodGroup
from unisono.api.keys import NVIDIA_GPU, SPOT_LABELS
from unisono.api.kinds import POD_GROUPS, PODS
from unisono.api.quantity import QuantityError
from unisono.api.resources import resource_list
from unisono.api.times import duration_or_none, parse_time, rfc3339, time_or
from unisono.controllers import owners
from unisono.controllers.node_scaling.decide import CAUSES, PATIENCE, POD_INDEX, Pool, groups_of, is_pending, verdict_of
from unisono.controllers.objects import create_once
from unisono.controllers.owners import index, owned_by
from unisono.controllers.recorder import Recorder
from unisono.errors import NotFound
from unisono.kube.controller import Context, Controller

# What MachineDeployments say of their machines, and what to do about machines that do not come (pure).

UNNEEDED_SECONDS, PROVISION_SECONDS = 600.0, 900.0
"""As long as the cluster autoscaler waits by default."""
BACKOFF_SECONDS, LONGEST_BACKOFF = 300.0, 1800.0
"""A pool that failed is left alone for this time, twice as long after each further failure."""
MOST_FAILURES = 100


def pool_of(deployment: autoscaling.MachineDeployment, now: float = 0.0) -> Pool | None:
    """The machines of a deployment; None when it does not say how far it may grow and what a machine offers."""
    notes = deployment.metadata.annotations or {}
    try:
        most = int(notes[autoscaling.MAXIMUM])
        offers = resource_list(dict(_offered(notes)))
    except (KeyError, ValueError, QuantityError):
        return None
    if not offers or deployment.metadata.deletion_timestamp:
        return None
    replicas = deployment.spec.replicas or 0
    labels = dict(part.split("=", 1) for part in notes.get(autoscaling.LABELS, "").split(",") if "=" in part)
    return Pool(
        deployment.key,
        replicas,
        max(replicas - (deployment.status.ready_replicas or 0), 0),
        most,
        offers,
        labels,
        tuple(_taints(notes.get(autoscaling.TAINTS, ""))),
        least=_least(notes),
        price=_price(notes.get(PRICE)),
        spot=any(labels.get(key) == value for key, value in SPOT_LABELS.items()),
        failing=_time(notes.get(BACKOFF_UNTIL)) > now,
        unneeded_seconds=_positive(notes.get(autoscaling.UNNEEDED_TIME), UNNEEDED_SECONDS),
        boot_seconds=_price(notes.get(BOOT_SECONDS)),
        provision_seconds=_positive(notes.get(autoscaling.PROVISION_TIME), PROVISION_SECONDS),
    )


def pool_of_node_pool(node_pool: autoscaling.NodePool, nodes: Iterable[Node]) -> Pool | None:
    """The machines of a NodePool of Karpenter; None if it has no limits, or if the size of a machine is unknown.

    What a machine offers, its price and its time to boot are said by the annotations that a MachineDeployment has them
    in; without those of the former, the smallest node of the pool tells it.

    Args:
        node_pool: of a cluster.
        nodes: of the same cluster.
    """
    notes, spec = node_pool.metadata.annotations or {}, node_pool.spec.template.spec
    own = [node for node in nodes if (node.metadata.labels or {}).get(autoscaling.NODE_POOL) == node_pool.metadata.name]
    try:
        offers = resource_list(dict(_offered(notes))) or _smallest(own)
        more = _more(node_pool, offers) if offers else None
    except (ValueError, QuantityError):
        return None
    if more is None or node_pool.metadata.deletion_timestamp:
        return None
    labels = {
        each.key: each.values[0]
        for each in spec.requirements or ()
        if each.operator == "In" and each.values and len(each.values) == 1
    } | (node_pool.spec.template.metadata.labels or {})
    labels[autoscaling.NODE_POOL] = node_pool.metadata.name
    replicas = resource_list(node_pool.status.resources or {}).get("nodes", 0) // _UNIT
    return Pool(
        node_pool.metadata.name,
        replicas,
        max(replicas - len(own), 0),
        replicas + more,
        offers,
        labels,
        tuple(spec.taints or ()),
        price=_price(notes.get(PRICE)),
        spot=any(labels.get(key) == value for key, value in SPOT_LABELS.items()),
        boot_seconds=_price(notes.get(BOOT_SECONDS)),
        provision_seconds=_positive(notes.get(autoscaling.PROVISION_TIME), PROVISION_SECONDS),
    )


_UNIT = 1000
"""One of what is counted, in engine units."""


def _smallest(nodes: Iterable[Node]) -> dict[str, int]:
    amounts = [resource_list(node.status.allocatable or {}) for node in nodes]
    return min(amounts, key=lambda each: sorted(each.items()), default={})


def _more(node_pool: autoscaling.NodePool, offers: Mapping[str, int]) -> int | None:
    """How many more machines the limits let come; None without any limit that says it."""
    limits, used = resource_list(node_pool.spec.limits or {}), resource_list(node_pool.status.resources or {})
    each = {"nodes": _UNIT, **offers}
    fits = [(most - used.get(name, 0)) // each[name] for name, most in limits.items() if each.get(name)]
    return max(0, min(fits)) if fits else None


@dataclass(frozen=True, slots=True)
class Overdue:
    """Machines that did not come in time.

    Attributes:
        annotations: to be set on the MachineDeployment; None removes one.
        replicas: how many machines to ask for from now on.
        text: what happened, for an event; empty when there is nothing to tell.
    """

    annotations: Mapping[str, str | None]
    replicas: int
    text: str = ""


def overdue(deployment: autoscaling.MachineDeployment, now: float, since: float = float("-inf")) -> Overdue | None:
    """What to do about machines that were asked for and have not come; None when there is nothing to do.

    ``since`` is when all of its machines were last there: one that vanished is replaced from then on, and is no failure
    of the cloud before its time is over.

    After the time that machines may take, a failure is counted and they get that time once more; after as many failures
    as the deployment allows, the machines are given up and the pool is passed by for a while.
    """
    notes = deployment.metadata.annotations or {}
    replicas, ready = deployment.spec.replicas or 0, deployment.status.ready_replicas or 0
    failures = min(_number(notes.get(PROVISION_FAILURES), 0), MOST_FAILURES)
    if ready >= replicas:
        # After a back-off the count stays until machines that were asked for since have come.
        healed = failures and scaled_at(deployment) > _time(notes.get(BACKOFF_UNTIL))
        return Overdue({PROVISION_FAILURES: None, BACKOFF_UNTIL: None}, replicas) if healed else None
    begun = _time(notes.get(SCALED_AT))
    patience = _positive(notes.get(autoscaling.PROVISION_TIME), PROVISION_SECONDS)
    if not isfinite(begun) or now - max(begun, since) < patience:
        return None
    failures += 1
    retries = max(0, _number(notes.get(PROVISION_RETRIES), 0))
    missing = replicas - ready
    if failures <= retries:
        text = f"{missing} machines have not come within {patience:.0f} s, failure {failures} of {retries + 1}"
        return Overdue({PROVISION_FAILURES: str(failures), SCALED_AT: rfc3339(now)}, replicas, text)
    rest = min(BACKOFF_SECONDS * 2 ** min(failures - retries - 1, 10), LONGEST_BACKOFF)
    until = rfc3339(now + rest)
    text = f"{missing} machines have not come within {patience:.0f} s: others are asked for instead until {until}"
    kept = max(ready, min(replicas, _least(notes) or 0))
    return Overdue({PROVISION_FAILURES: str(failures), BACKOFF_UNTIL: until, SCALED_AT: rfc3339(now)}, kept, text)


def scaled_at(deployment: autoscaling.MachineDeployment) -> float:
    """When the number of machines was changed last, seconds since 1970."""
    return _time((deployment.metadata.annotations or {}).get(SCALED_AT))


def _offered(notes: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name in ("cpu", "memory", "ephemeral-disk"):
        if f"{autoscaling.CAPACITY}{name}" in notes:
            yield ("ephemeral-storage" if name == "ephemeral-disk" else name), notes[f"{autoscaling.CAPACITY}{name}"]
    if autoscaling.GPU_COUNT in notes:
        yield notes.get(autoscaling.GPU_TYPE, NVIDIA_GPU), notes[autoscaling.GPU_COUNT]


def _taints(text: str) -> Iterator[Taint]:
    """``key=value:Effect``, separated by commas."""
    for part in filter(None, text.split(",")):
        said, _, effect = part.rpartition(":")
        key, _, value = said.partition("=")
        yield Taint(key=key, value=value, effect=effect)


def _least(notes: Mapping[str, str]) -> int | None:
    try:
        return max(0, int(notes[autoscaling.MINIMUM]))
    except (KeyError, ValueError):
        return None


def _price(text: str | None) -> float | None:
    try:
        price = float(text) if text is not None else -1.0
    except ValueError:
        return None
    return price if isfinite(price) and price >= 0 else None


def _number(text: str | None, default: int) -> int:
    try:
        return int(text) if text is not None else default
    except ValueError:
        return default


def _positive(text: str | None, default: float) -> float:
    seconds = duration_or_none(text)
    return default if seconds is None or seconds < 0 else seconds


def _time(text: str | None) -> float:
    return time_or(text, float("-inf"))


_LONGEST_NAME = 253 - 16


def next_attempt(requests: Sequence[autoscaling.ProvisioningRequest], *, most: int) -> int:
    """Number of the request to make now, from 1; 0 when one is under way or has been fulfilled, or all have failed."""
    open_ones = [each for each in requests if not each.has("Failed")]
    return 0 if open_ones or len(requests) >= most else len(requests) + 1


def request_for(
    group: PodGroup, pods: Sequence[Pod], class_name: str, attempt: int
) -> tuple[autoscaling.ProvisioningRequest, list[autoscaling.PodTemplate]]:
    """The request for a gang's pods, and the templates of its sets of equal pods; the gang owns them all.

    Args:
        group: the gang.
        pods: its pods that have no place, at least one.
        class_name: of the provisioner, such as ``best-effort-atomic-scale-up.autoscaling.x-k8s.io``.
        attempt: number of the request, from 1; a request cannot be changed or repeated.
    """
    name = f"{group.metadata.name[:_LONGEST_NAME]}-{attempt}"
    alike: dict[bytes, list[Pod]] = {}
    for pod in pods:
        alike.setdefault(_essence(pod), []).append(pod)
    templates, sets = [], []
    for number, same in enumerate(alike.values()):
        meta = _meta(f"{name}-{number}", group)
        labels = dict(same[0].metadata.labels or {})
        spec = msgspec.json.decode(_essence(same[0]), type=type(same[0].spec))
        template = PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=spec)
        templates.append(autoscaling.PodTemplate(metadata=meta, template=template))
        sets.append(autoscaling.PodSet(autoscaling.PodTemplateRef(meta.name), len(same)))
    spec_of = autoscaling.ProvisioningRequestSpec(provisioning_class_name=class_name, pod_sets=sets)
    return autoscaling.ProvisioningRequest(metadata=_meta(name, group), spec=spec_of), templates


def _meta(name: str, group: PodGroup) -> ObjectMeta:
    owner = owned_by(POD_GROUPS, group)
    return ObjectMeta(name=name, namespace=group.metadata.namespace, owner_references=[owner])


def _essence(pod: Pod) -> bytes:
    """A pod's spec without what tells it from its equals."""
    return msgspec.json.encode(msgspec.structs.replace(pod.spec, node_name=None, hostname=None))


# Asks the cluster autoscaler for nodes, for gangs that name a provisioning class and wait for room.

ATTEMPTS = 3
_REQUEST_INDEX = "pod-group-of-request"
_LOOK_AGAIN = 10.0


class ProvisioningController(Controller):
    """One request at a time for each gang, and a new one when it has failed, up to three."""

    name = "provisioning-controller"
    workers = 4

    def __init__(self, recorder: Recorder) -> None:
        """``recorder`` records events on the PodGroups."""
        self._recorder = recorder

    def setup(self, context: Context) -> None:
        """Watch the gangs that name a class, and the requests where a cluster has them."""
        self._groups = context.watch(POD_GROUPS, when=lambda _event, group, _old: bool(_class_of(group)))
        self._requests = context.watch(
            autoscaling.PROVISIONING_REQUESTS, lambda request: owners.keys_of(POD_GROUPS, request), optional=True
        )
        index(self._requests, _REQUEST_INDEX, lambda request: owners.keys_of(POD_GROUPS, request))
        self._pods = context.informer(PODS)
        index(self._pods, POD_INDEX, groups_of)

    async def reconcile(self, key: str) -> float | None:
        """Ask for nodes when the gang has waited for a while."""
        group = self._groups.get(key)
        if group is None or group.metadata.deletion_timestamp or not _class_of(group):
            return None
        if verdict_of(group).cause not in CAUSES or not group.metadata.creation_timestamp:
            return None
        early = parse_time(group.metadata.creation_timestamp) + PATIENCE - self._clock.time()
        if early > 0:
            return early
        pending = [pod for pod in self._pods.by_index(POD_INDEX, key) if is_pending(pod)]
        if not pending:
            return _LOOK_AGAIN
        requests = self._requests.by_index(_REQUEST_INDEX, key)
        attempt = next_attempt(requests, most=ATTEMPTS)
        if attempt:
            await self._ask(group, sorted(pending, key=lambda pod: pod.metadata.name), attempt)
        else:
            await self._mark(group, pending, requests)
        return None

    async def _ask(self, group: PodGroup, pods: list[Pod], attempt: int) -> None:
        request, templates = request_for(group, pods, _class_of(group), attempt)
        try:
            for template in templates:
                await create_once(self._client, autoscaling.POD_TEMPLATES, template)
            await create_once(self._client, autoscaling.PROVISIONING_REQUESTS, request)
        except NotFound:
            text = (
                "this cluster has no ProvisioningRequests: run the cluster autoscaler with them, or leave out the class"
            )
            self._recorder.event(group, "Warning", "ProvisioningUnknown", text)
            return
        text = f"asked for nodes for {len(pods)} pods: ProvisioningRequest {request.metadata.name}"
        self._recorder.event(group, "Normal", "ProvisioningRequested", text)
        await self._mark(group, pods, [request])

    async def _mark(self, group: PodGroup, pods: list[Pod], requests: list[autoscaling.ProvisioningRequest]) -> None:
        """Pods say which request is theirs, so that no further nodes are made for them one by one."""
        current = next((each for each in requests if not each.has("Failed")), None)
        if current is None:
            return
        notes = {autoscaling.CONSUMES: current.metadata.name, autoscaling.CLASS: _class_of(group)}
        for pod in pods:
            have = pod.metadata.annotations or {}
            if all(have.get(name) == value for name, value in notes.items()):
                continue
            patch = {"metadata": {"uid": pod.metadata.uid, "annotations": notes}}
            try:
                await self._client.patch(PODS, pod.metadata.name, patch, namespace=pod.metadata.namespace)
            except NotFound:
                continue


def _class_of(group: PodGroup) -> str:
    return (group.metadata.annotations or {}).get(autoscaling.CLASS_OF_GROUP, "")
