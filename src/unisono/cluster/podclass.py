"""Pod classes: pods with the same scheduling-relevant spec share one interned object.

Everything that the engine computes about "such a pod on all nodes" is computed once per class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from unisono.api import keys
from unisono.api.annotations import CLUSTER_POINTS, ONE_OF, ONE_OF_BY, RESERVATION
from unisono.api.base import LabelSelector
from unisono.api.core import Affinity, Container, NodeSelectorTerm, PodAffinityTerm, PodSpec, Toleration
from unisono.api.extended_devices import IMPLICIT_PREFIX
from unisono.api.pod_states import qos_class
from unisono.api.resources import add, effective_requests, initialisation, maximum, pod_requests, resource_list
from unisono.api.selecting import pod_group_name
from unisono.cluster.resources import PODS, ResourceRegistry, Vector, fitted, is_large, scheduled
from unisono.cluster.selectors import NO_TERMS, Match, PodTerms

# How much a pod may ask of the scheduler: each term, toleration and value is looked at for each node, again and again.
#
# Kubernetes has no bounds here beyond the size of an object, which is enough for tens of thousands of each.

MOST_TERMS: Final = 64
"""Terms about other pods, spread constraints included, and terms about nodes."""
MOST_VALUES: Final = 8192
"""Namespaces, labels and values in all those terms."""
MOST_TOLERATIONS: Final = 512
MOST_PORTS: Final = 1024
"""Ports of the node's address."""
MOST_VOLUMES: Final = 512


def weight_of(spec: PodSpec) -> int:
    """Number of things that filters and scores look at for each node.

    Raises:
        ValueError: they are more than the scheduler looks at; the text names the field and the way out.
    """
    terms, nodes, spread = _pod_terms(spec), _node_terms(spec), spec.topology_spread_constraints or ()
    selectors = [*(one.label_selector for one in (*terms, *spread)), *(one.namespace_selector for one in terms)]
    values = (
        sum(len(one.namespaces or ()) for one in terms) + sum(map(_labels, selectors)) + sum(map(_requirements, nodes))
    )
    ports = sum(port.host_port is not None for each in spec.containers or () for port in each.ports or ())
    tolerations = len(spec.tolerations or ())
    about = "spec.affinity and spec.topologySpreadConstraints"
    for number, most, what, instead in (
        (len(terms) + len(spread), MOST_TERMS, f"terms about other pods in {about}", "join them into fewer selectors"),
        (len(nodes), MOST_TERMS, "terms in spec.affinity.nodeAffinity", "select nodes by a label of their own"),
        (values, MOST_VALUES, f"namespaces, labels and values in {about}", "give what is meant a label of its own"),
        (tolerations, MOST_TOLERATIONS, "spec.tolerations", "one without a key tolerates all taints"),
        (ports, MOST_PORTS, "ports with hostPort in spec.containers", "use a Service"),
    ):
        _check(number, most, what, instead)
    return len(terms) + len(nodes) + len(spread) + values + tolerations + ports


def check_volumes(spec: PodSpec) -> None:
    """Volumes tie pods of one class to claims of their own, so they are counted for each pod.

    Raises:
        ValueError: there are more than `MOST_VOLUMES`.
    """
    _check(len(spec.volumes or ()), MOST_VOLUMES, "spec.volumes", "join them into fewer volumes")


def _check(number: int, most: int, what: str, instead: str) -> None:
    if number > most:
        raise ValueError(f"{number} {what} are too many to be scheduled, {most} at most: {instead}")


def _pod_terms(spec: PodSpec) -> list[PodAffinityTerm]:
    terms: list[PodAffinityTerm] = []
    sides = (spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity) if spec.affinity else ()
    for side in sides:
        if side is not None:
            terms += side.required_during_scheduling_ignored_during_execution or ()
            preferred = side.preferred_during_scheduling_ignored_during_execution or ()
            terms += [each.pod_affinity_term for each in preferred if each.pod_affinity_term is not None]
    return terms


def _node_terms(spec: PodSpec) -> list[NodeSelectorTerm]:
    side = spec.affinity.node_affinity if spec.affinity else None
    if side is None:
        return []
    required = side.required_during_scheduling_ignored_during_execution
    preferred = side.preferred_during_scheduling_ignored_during_execution or ()
    terms = [*((required.node_selector_terms if required else None) or ())]
    return terms + [each.preference for each in preferred if each.preference is not None]


def _labels(selector: LabelSelector | None) -> int:
    if selector is None:
        return 0
    return len(selector.match_labels or ()) + _values(selector.match_expressions)


def _requirements(term: NodeSelectorTerm) -> int:
    return _values(term.match_expressions) + _values(term.match_fields)


def _values(requirements: Iterable[Any] | None) -> int:
    return sum(1 + len(one.values or ()) for one in requirements or ())


DEFAULT_MILLI_CPU = 100
DEFAULT_MEMORY = 200 * 1024 * 1024

HostPort = tuple[str, str, int]
"""(protocol, host IP or "" for every address, port)."""

NOTES = frozenset(
    (
        CLUSTER_POINTS,
        ONE_OF,
        ONE_OF_BY,
        RESERVATION,
        keys.NUMA_TOPOLOGY_POLICY,
        keys.PREEMPTABLE,
        keys.REVOCABLE_ZONE,
        keys.SCORING_TYPE,
        keys.SCORING_WEIGHT,
        keys.VGPU_MODE,
        keys.VGPU_USE_TYPE,
        keys.VGPU_NO_USE_TYPE,
        keys.VGPU_USE_UUID,
        keys.VGPU_NO_USE_UUID,
        keys.VGPU_GROUP_POLICY,
    )
)
"""Annotations of a pod that decide where it may go."""


def relevant_notes(annotations: Mapping[str, str], namespace: str) -> Mapping[str, str]:
    """The entries of `NOTES`; with the PodGroup's key where members of one keep apart on cards."""
    if NOTES.isdisjoint(annotations):
        return {}
    notes = {key: annotations[key] for key in sorted(NOTES & annotations.keys())}
    if keys.VGPU_GROUP_POLICY in notes:
        name = pod_group_name(annotations)
        notes[keys.GROUP_NAME] = f"{namespace}/{name}" if name else ""
    return notes


class PodRelations(NamedTuple):
    """What relates pods to other pods and objects, beyond their spec; see `PodClass`."""

    terms: PodTerms = NO_TERMS
    matched: Match = frozenset()
    volumes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    templates: tuple[tuple[str, str], ...] = ()


UNTIED = PodRelations()


class PodClass:
    """One scheduling-relevant spec.

    Attributes:
        id: small integer, unique within one cluster state.
        requests: by resource name in engine units, without ``pods``.
        vector: ``[R]`` request including one ``pods``.
        rows, amounts: the non-zero entries of ``vector``: row numbers and amounts.
        large: some amount is not to be added without care, see `unisono.cluster.resources`.
        best_effort: it requests nothing but its place.
        device_resources: those of the requests that are named after device classes.
        nonzero: (milli-CPU, bytes) with 100m and 200Mi for each container that states none, as kube-scheduler scores.
        node_selector: ``spec.nodeSelector``.
        affinity: ``spec.affinity`` or None.
        tolerations: ``spec.tolerations``.
        host_ports: ports on the node's address that it needs.
        containers, init_containers: their resources, for devices that are given per container.
        guaranteed: its quality of service is Guaranteed.
        notes: those of the pod's annotations that choose devices or CPUs, see `relevant_notes`.
        images: image names of all containers and image volumes, normalised, once per mention.
        base: the class of the spec alone; answers that depend on spec and nodes only are the same for both.
        kin: classes that differ in amounts, ports and ties only share it: where such pods may go and which nodes they
            prefer is the same.
        terms: affinity and spread terms.
        matched: ids of the selectors (of all terms) that select the pod.
        volumes: keys of the PersistentVolumeClaims that it mounts.
        devices: keys of its ResourceClaims; one that does not exist yet has no name (``namespace/``).
        templates: of those that were made for the pod, the key and the ResourceClaimTemplate.
        uses: pods of the class, and classes of which it is the base.
        weight: number of terms, values, tolerations and ports that filters and scores look at for each node.
        spec: what of the spec the scheduler goes by, for changes that are tried.
    """

    __slots__ = (
        "affinity", "amounts", "base", "best_effort", "containers", "device_resources", "devices", "guaranteed",
        "host_ports", "id", "images", "init_containers", "kin", "large", "matched", "node_selector", "nonzero", "notes",
        "requests", "rows", "spec", "templates", "terms", "tolerations", "uses", "vector", "volumes", "weight",
    )  # fmt: skip

    vector: Vector
    nonzero: Vector
    rows: npt.NDArray[np.intp]
    amounts: Vector
    large: bool

    def __init__(
        self, number: int, spec: PodSpec, registry: ResourceRegistry, notes: Mapping[str, str] | None = None
    ) -> None:
        self.id = number
        self.spec = relevant(spec)
        self.weight = weight_of(spec)
        requested = scheduled(pod_requests(spec))
        self.requests: dict[str, int] = {name: amount for name, amount in requested.items() if amount > 0}
        self.best_effort = not self.requests
        self.device_resources = tuple(name for name in self.requests if name.startswith(IMPLICIT_PREFIX))
        self.nonzero = _nonzero_requests(spec)
        self.lay_out(registry)
        self.node_selector: Mapping[str, str] = spec.node_selector or {}
        self.affinity: Affinity | None = spec.affinity
        self.tolerations: tuple[Toleration, ...] = tuple(spec.tolerations or ())
        self.host_ports: tuple[HostPort, ...] = _host_ports(spec)
        self.containers = tuple(c.resources for c in spec.containers or ())
        self.init_containers = tuple(c.resources for c in spec.init_containers or ())
        self.guaranteed = qos_class(spec) == "Guaranteed"
        self.notes: Mapping[str, str] = notes or {}
        self.images: tuple[str, ...] = images_of(spec)
        self.base: PodClass = self
        self.kin = number
        self.terms: PodTerms = NO_TERMS
        self.matched: Match = frozenset()
        self.volumes: tuple[str, ...] = ()
        self.devices: tuple[str, ...] = ()
        self.templates: tuple[tuple[str, str], ...] = ()
        self.uses = 0

    def lay_out(self, registry: ResourceRegistry) -> None:
        """Make the vector of its requests, for the rows that resources have now."""
        self.vector = registry.vector(self.requests)
        self.vector[PODS] = 1
        self.rows = np.flatnonzero(self.vector)
        self.amounts = self.vector[self.rows]
        self.large = is_large(self.vector) or is_large(self.nonzero)

    def resource_names(self, registry: ResourceRegistry) -> list[str]:
        """Names of its ``rows``; of resources without a row of their own, the first one that it requests."""
        return [
            registry.names[row]
            if row != registry.unlisted
            else next(name for name in self.requests if registry.find(name) is None)
            for row in self.rows.tolist()
        ]

    def refined(self, number: int, ties: PodRelations) -> PodClass:
        """A class of the same spec whose pods are tied to others as ``ties`` says."""
        fresh = copy(self)
        fresh.id, fresh.uses = number, 0
        fresh.terms, fresh.matched, fresh.volumes, fresh.devices, fresh.templates = ties
        return fresh

    @property
    def claims(self) -> bool:
        """Whether its pods have claims for volumes or devices."""
        return bool(self.volumes or self.devices)

    @property
    def ties(self) -> PodRelations:
        """What it has beyond its base."""
        return PodRelations(self.terms, self.matched, self.volumes, self.devices, self.templates)

    def widen(self, size: int) -> None:
        """Pad ``vector`` to ``size`` rows."""
        self.vector = fitted(self.vector, size)

    def __repr__(self) -> str:
        return f"PodClass({self.id}, {self.requests})"


def relevant(spec: PodSpec) -> PodSpec:
    """What of a spec the scheduler goes by, without what else users write: one is kept for each class."""

    def part(one: Container) -> Container:
        return Container(
            name=one.name, image=one.image, ports=one.ports, resources=one.resources, restart_policy=one.restart_policy
        )

    return PodSpec(
        containers=[part(one) for one in spec.containers or ()],
        init_containers=[part(one) for one in spec.init_containers or ()] or None,
        resources=spec.resources,
        overhead=spec.overhead,
        node_selector=spec.node_selector,
        affinity=spec.affinity,
        tolerations=spec.tolerations,
        topology_spread_constraints=spec.topology_spread_constraints,
        host_network=spec.host_network,
        volumes=[one for one in spec.volumes or () if one.image is not None] or None,
    )


def images_of(spec: PodSpec) -> tuple[str, ...]:
    """Image names of containers and image volumes, normalised, once per mention."""
    containers = [*(spec.init_containers or ()), *(spec.containers or ())]
    named = [c.image for c in containers] + [v.image.reference for v in spec.volumes or () if v.image is not None]
    return tuple(normalised_image(name) for name in named if name)


def normalised_image(name: str) -> str:
    """An image name with its tag: ``:latest`` where none is given."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def _all_port_owners(spec: PodSpec) -> list[Container]:
    restartable = [c for c in spec.init_containers or () if c.restart_policy == "Always"]
    return [*(spec.containers or ()), *restartable]


def _host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    host_ports: dict[HostPort, None] = {}
    for container in _all_port_owners(spec):
        for port in container.ports or ():
            number = port.host_port or (port.container_port if spec.host_network else 0)
            if number:
                address = port.host_ip or ""
                host_ports[(port.protocol or "TCP", "" if address == "0.0.0.0" else address, int(number))] = None  # noqa: S104  # nosec B104 # read
    return tuple(host_ports)


def _container_nonzero(container: Container) -> dict[str, int]:
    requests = effective_requests(container.resources)
    return {"cpu": requests.get("cpu", DEFAULT_MILLI_CPU), "memory": requests.get("memory", DEFAULT_MEMORY)}


def _nonzero_requests(spec: PodSpec) -> Vector:
    """kube-scheduler's scoring request: containers summed, init containers by maximum, overhead added."""
    total: dict[str, int] = {"cpu": 0, "memory": 0}
    for container in spec.containers or ():
        add(total, _container_nonzero(container))
    sidecars, peak = initialisation(spec.init_containers or (), _container_nonzero)
    add(total, sidecars)
    maximum(total, peak)
    overhead = resource_list(spec.overhead)
    add(total, {name: overhead.get(name, 0) for name in ("cpu", "memory")})
    return np.array([total["cpu"], total["memory"]], dtype=np.int64)
