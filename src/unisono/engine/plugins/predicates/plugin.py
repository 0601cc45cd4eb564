"""predicates: which nodes may take a pod at all.

Filters of kube-scheduler 1.36 in Volcano's order: pod count, unschedulable, node selector and affinity, taints, host
ports. Whether the requested resources are free is the engine's own check.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from operator import attrgetter
from typing import Protocol

from unisono.api.extended_devices import stands_for_limits
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.resources import PODS
from unisono.cluster.taints import repels, tolerated
from unisono.engine.answers import Reason, Veto
from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.contract.plugin import Plugin
from unisono.engine.decisions import Preparation
from unisono.engine.plugins.common.node_selectors import NOT_READY, UNSCHEDULABLE, match_pod, per_node, required_of
from unisono.engine.plugins.common.topology_spread import InterPodFilter, SpreadFilter
from unisono.engine.plugins.predicates import resource_claims
from unisono.engine.plugins.predicates.volumes import VolumeFilter, VolumeLedger
from unisono.engine.session.job_state import JobState
from unisono.engine.session.node_view import NodeAt, NodeView
from unisono.engine.session.session import Session
from unisono.engine.verdict import Cause

POD_COUNT = Reason("node(s) pod number exceeded", cause=Cause.NODES_FULL)
CORDONED = Reason("node(s) were unschedulable", unresolvable=True)
DEAD = Reason("node(s) were not ready", unresolvable=True)
AFFINITY = Reason("node(s) didn't match Pod's node affinity/selector", unresolvable=True)
TAINTS = Reason("node(s) had untolerated taint(s)", unresolvable=True)
PORTS = Reason("node(s) didn't have free ports for the requested pod ports", cause=Cause.PORT_TAKEN)

_NODE_AFFINITY = Argument("predicate.NodeAffinityEnable", "bool", True, "node selector and required node affinity")
_NODE_PORTS = Argument("predicate.NodePortsEnable", "bool", True, "host ports")
_POD_AFFINITY = Argument("predicate.PodAffinityEnable", "bool", True, "required inter-pod affinity and anti-affinity")
_SPREAD = Argument("predicate.PodTopologySpreadEnable", "bool", True, "topology spread with DoNotSchedule")
_TAINTS = Argument("predicate.TaintTolerationEnable", "bool", True, "taints NoSchedule and NoExecute")

_VOLUME_LIMITS = Argument("predicate.NodeVolumeLimitsEnable", "bool", True, "limits of CSI drivers per node")
_VOLUME_ZONE = Argument("predicate.VolumeZoneEnable", "bool", True, "zones of volumes")
_VOLUME_BINDING = Argument("predicate.VolumeBindingEnable", "bool", True, "choosing volumes for claims")
_BIND_TIMEOUT = Argument("volumebinding.bindTimeoutSeconds", "int", 600, "seconds that a claim may take to be bound")


def _ignored(key: str, kind: str, default: object, meaning: str) -> Argument:
    return Argument(key, kind, default, meaning, effective=False)


FEATURES = frozenset(("inter-pod affinity", "resource claims", "topology spread", "volumes"))
"""What the conformance cases may ask for."""


class PredicatesPlugin(Plugin):
    """Node filters that follow from spec, labels, taints and ports."""

    name = "predicates"
    static_by_kin = True
    known_arguments = (
        _NODE_AFFINITY,
        _NODE_PORTS,
        _TAINTS,
        _POD_AFFINITY,
        _VOLUME_LIMITS,
        _VOLUME_ZONE,
        _SPREAD,
        _VOLUME_BINDING,
        _ignored("predicate.CacheEnable", "bool", False, "filter results are always kept per pod class"),
        _ignored("predicate.DynamicResourceAllocationEnable", "bool", True, "resource claims are always looked at"),
        _ignored("predicate.GPUSharingEnable", "bool", False, "it is deviceshare.GPUSharingEnable since Volcano 1.8"),
        _ignored("predicate.GPUNumberEnable", "bool", False, "it is deviceshare.GPUNumberEnable since Volcano 1.8"),
        _BIND_TIMEOUT,
        _ignored("volumebinding.weight", "int", 1, "score by storage capacity, which Volcano leaves off"),
        _ignored("volumebinding.shape", "list", None, "score by storage capacity, which Volcano leaves off"),
        _ignored("dynamicresources.filterTimeoutSeconds", "int", 10, "resource claims"),
    )

    def open(self, session: Session) -> None:
        """Nothing is computed before it is asked for."""
        self.session = session
        self._checks: dict[int, list[DomainCheck]] = {}
        self._sources: dict[int, list[Versioned]] = {}
        self._volumes: VolumeLedger | None = None
        self._devices: resource_claims.ClaimLedger | None = None
        self._served: Set[str] | None = None

    def static_filter(self, pod_class: PodClass, nodes: NodeView) -> Sequence[Veto]:
        """Unschedulable, not ready, node selector and affinity, taints."""
        vetoes: list[Veto] = []
        if not tolerated(UNSCHEDULABLE, pod_class.tolerations):
            vetoes.append(Veto(nodes.unschedulable, CORDONED))
        if not tolerated(NOT_READY, pod_class.tolerations):
            vetoes.append(Veto(~nodes.table.ready[nodes.columns], DEAD))
        if argument_value(_NODE_AFFINITY, self.arguments) and _selects(pod_class):
            vetoes.append(Veto(~match_pod(pod_class, nodes), AFFINITY))
        if argument_value(_TAINTS, self.arguments):
            repelling = per_node(nodes, lambda taints: repels(taints, pod_class.tolerations))
            vetoes.append(Veto(repelling != 0, TAINTS))
        return vetoes

    def filter(self, pod_class: PodClass, nodes: NodeView) -> Sequence[Veto]:
        """Pod count and host ports."""
        full = nodes.future_idle_of(PODS) <= 0  # what must be free now is the engine's own check
        vetoes = [Veto(full, POD_COUNT)]
        if pod_class.host_ports and argument_value(_NODE_PORTS, self.arguments):
            vetoes.append(Veto(nodes.port_conflicts(pod_class), PORTS))
        return vetoes

    def filter_at(self, pod_class: PodClass, node: NodeAt) -> bool:
        """Pod count; a class with host ports is not pure."""
        return node.future_idle_of(PODS) <= 0

    # ---- what depends on other pods

    def _checks_of(self, pod_class: PodClass) -> list[DomainCheck]:
        if pod_class.base is pod_class and not self._served_of(pod_class):
            return []
        checks = self._checks.get(pod_class.id)
        if checks is None:
            checks = self._checks[pod_class.id] = list(self._make_checks(pod_class))
        return checks

    def _make_checks(self, pod_class: PodClass) -> Iterator[DomainCheck]:
        domains, table = self.session.domains, self.session.snapshot.nodes
        if argument_value(_POD_AFFINITY, self.arguments):
            between = InterPodFilter.of(pod_class, domains, table)
            if between is not None:
                yield between
        ledger = self._ledger(pod_class)
        if ledger is not None:
            yield VolumeFilter(pod_class, ledger)
        if argument_value(_SPREAD, self.arguments):
            spread = SpreadFilter.of(pod_class, self.session)
            if spread is not None:
                yield spread
        if pod_class.devices:
            yield resource_claims.ClaimFilter(pod_class, self._claims())
        yield from self._limit_checks(pod_class)

    def _limit_checks(self, pod_class: PodClass) -> Iterator[DomainCheck]:
        """Extended resources that device classes serve, for pods without a claim that stands for them."""
        served = self._served_of(pod_class)
        if not served:
            return
        claims = self.session.snapshot.catalogue.device_claims
        if any(key in claims and stands_for_limits(claims[key]) for key in pod_class.devices):
            return
        if any(name in facts.by_claims for facts in self.session.snapshot.nodes.facts for name in served):
            yield resource_claims.AwaitedFilter(served, self.session)
        if claims:
            yield resource_claims.LimitFilter(served, self._claims())

    def _served_of(self, pod_class: PodClass) -> dict[str, int]:
        """What a class requests of resources that device classes serve."""
        if self._served is None:
            self._served = resource_claims.reported_too(self.session).keys()
        return {name: pod_class.requests[name] for name in self._served & pod_class.requests.keys()}

    def _ledger(self, pod_class: PodClass) -> VolumeLedger | None:
        """The books of volumes; None for pods without claims, and where nothing looks at them.

        Claims for one pod are looked at whatever is switched off.
        """
        if not pod_class.volumes:
            return None
        if self._volumes is None:
            limits, zones, binding = (
                argument_value(argument, self.arguments) for argument in (_VOLUME_LIMITS, _VOLUME_ZONE, _VOLUME_BINDING)
            )
            timeout = float(argument_value(_BIND_TIMEOUT, self.arguments))
            self._volumes = VolumeLedger(self.session, limits=limits, zones=zones, binding=binding, timeout=timeout)
        ledger = self._volumes
        exclusive = any(map(ledger.for_one_pod, pod_class.volumes))
        return ledger if exclusive or ledger.limits or ledger.zones or ledger.binding else None

    def _claims(self) -> resource_claims.ClaimLedger:
        if self._devices is None:
            self._devices = resource_claims.ClaimLedger(self.session)
        return self._devices

    def placed(self, job: JobState, pod_class: PodClass, nodes: Sequence[int]) -> None:
        """Give volumes and devices to claims that wait for their first pod."""
        ledger = self._ledger(pod_class)
        if ledger is not None:
            ledger.placed(pod_class, nodes)
        if pod_class.devices:
            self._claims().placed(pod_class, nodes)
        elif self._devices is not None and self._served_of(pod_class):
            self._devices.changes.version += 1

    def removed(self, job: JobState, pod_class: PodClass, nodes: Sequence[int]) -> None:
        """Take them back."""
        ledger = self._ledger(pod_class)
        if ledger is not None:
            ledger.removed(pod_class, nodes)
        if pod_class.devices:
            self._claims().removed(pod_class, nodes)
        elif self._devices is not None and self._served_of(pod_class):
            self._devices.changes.version += 1

    def preparations(self, task: Task, node: int) -> Sequence[Preparation]:
        """Volumes to bind, and devices to give."""
        ledger = self._ledger(task.pod_class)
        volumes = ledger.binds(task.pod_class, node) if ledger is not None and ledger.binding else ()
        return (*volumes, *(self._claims().allocations(task) if task.pod_class.devices else ()))

    def stamp(self, pod_class: PodClass) -> int | None:
        """How often what the class depends on has changed."""
        sources = self._sources.get(pod_class.id)
        if sources is None:
            sources = [source for check in self._checks_of(pod_class) for source in check.sources]
            self._sources[pod_class.id] = sources
        return sum(map(_version, sources)) if sources else None

    def self_affecting(self, pod_class: PodClass) -> bool:
        """Whether one pod of the class matters to the next one."""
        return any(check.self_affecting for check in self._checks_of(pod_class))

    def by_domains(self, pod_class: PodClass) -> bool:
        """Affinity and spread look at the pods of domains; volumes and device claims have books of their own."""
        return all(isinstance(check, InterPodFilter | SpreadFilter) for check in self._checks_of(pod_class))

    def domain_filter(self, pod_class: PodClass, nodes: NodeView) -> Sequence[Veto]:
        """Inter-pod affinity, volumes, topology spread and device claims."""
        return [veto for check in self._checks_of(pod_class) for veto in check.vetoes()]


class Versioned(Protocol):
    """Something whose ``version`` moves when it changes."""

    version: int


class DomainCheck(Protocol):
    """One filter for one class over all nodes.

    Attributes:
        self_affecting: one pod of the class matters to the next one.
    """

    self_affecting: bool

    @property
    def sources(self) -> Sequence[Versioned]:
        """What the answer depends on."""
        ...

    def vetoes(self) -> list[Veto]:
        """Over all nodes of the session."""
        ...


_version = attrgetter("version")


def _selects(pod_class: PodClass) -> bool:
    return bool(pod_class.node_selector) or required_of(pod_class) is not None
