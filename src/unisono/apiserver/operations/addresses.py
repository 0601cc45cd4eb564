"""Addresses and node ports of Services, given out once each as a real cluster does.

Nothing on this machine routes them: pods find each other by the names of Services, and the addresses are there because
clients and charts expect them.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Network, ip_address

import msgspec

from unisono.api.core.service import Service, ServiceSpec
from unisono.api.field_error import FieldError, invalid
from unisono.api.kinds import SERVICES
from unisono.apiserver.admission import Request, View
from unisono.apiserver.failures import invalid as refuse
from unisono.apiserver.storage.objects import Key
from unisono.apiserver.storage.store import Store

# The ranges that clusters have unless they are told otherwise.
CLUSTER_RANGE = IPv4Network("10.96.0.0/12")
NODE_PORTS = range(30000, 32768)
# The first addresses and ports of a range are left to those who ask for a certain one.
_STATIC_ADDRESSES = 256
_STATIC_PORTS = 86
_HEADLESS = "None"
_DECODE = msgspec.json.Decoder(Service).decode

Pick = Callable[[int], int]


@dataclass(slots=True)
class Taken:
    """What Services hold."""

    addresses: set[str] = field(default_factory=set)
    ports: set[int] = field(default_factory=set)


class Addresses:
    """The addresses of a store's Services; a rule of admission that gives out and checks them.

    Args:
        store: holds the Services.
        pick: a number below its argument, at random.
    """

    def __init__(self, store: Store, pick: Pick = secrets.randbelow) -> None:
        self._store, self._pick = store, pick
        self._known: dict[Key, tuple[int, frozenset[str], frozenset[int]]] = {}

    def assign(self, request: Request, view: View) -> None:
        """Complete a Service; its update keeps what it has.

        Raises:
            Invalid: an address or a port that was asked for is taken, or outside of its range.
        """
        if request.operation == "DELETE" or request.subresource:
            return
        spec: ServiceSpec = request.object.spec
        old: ServiceSpec | None = request.old.spec if request.old is not None else None
        if old is not None:
            keep(spec, old)
        if spec.type == "ExternalName":
            return
        errors = list(choose_families(spec))
        taken = self._taken(request)
        errors += self._address(spec, old, taken)
        errors += self._ports(spec, taken)
        if errors:
            raise refuse(request.kind, request.name, errors)

    def _address(self, spec: ServiceSpec, old: ServiceSpec | None, taken: Taken) -> Iterator[FieldError]:
        requested = spec.cluster_ip
        if spec.cluster_ips and not requested:
            return
        if not requested:
            requested = spec.cluster_ip = self._free_address(taken.addresses)
        spec.cluster_ips = spec.cluster_ips or [requested]
        if requested == _HEADLESS or (old is not None and old.cluster_ip):
            return
        try:
            address = ip_address(requested)
        except ValueError:
            # Validation says so.
            return
        ends = CLUSTER_RANGE.network_address, CLUSTER_RANGE.broadcast_address
        why = ""
        if address not in CLUSTER_RANGE or address in ends:
            why = f"the provided network does not match the current range, which is {CLUSTER_RANGE}"
        elif str(address) in taken.addresses:
            why = "provided IP is already allocated"
        if why:
            yield invalid("spec.clusterIPs", spec.cluster_ips, f"failed to allocate IP {requested}: {why}")

    def _ports(self, spec: ServiceSpec, taken: Taken) -> Iterator[FieldError]:
        if spec.type not in ("NodePort", "LoadBalancer"):
            return
        mine: set[int] = set()
        for index, port in enumerate(spec.ports or ()):
            if port.node_port:
                if port.node_port not in mine:
                    yield from _check_port(f"spec.ports[{index}].nodePort", port.node_port, taken)
                mine.add(port.node_port)
        if gives_node_ports(spec):
            for port in spec.ports or ():
                if not port.node_port:
                    port.node_port = self._free_port(taken.ports | mine)
                    mine.add(port.node_port)
        if spec.type == "LoadBalancer" and spec.external_traffic_policy == "Local":
            if not spec.health_check_node_port:
                spec.health_check_node_port = self._free_port(taken.ports | mine)
            elif spec.health_check_node_port not in mine:
                yield from _check_port("spec.healthCheckNodePort", spec.health_check_node_port, taken)

    def _free_address(self, taken: set[str]) -> str:
        size = CLUSTER_RANGE.num_addresses - _STATIC_ADDRESSES - 1
        while True:
            candidate = str(CLUSTER_RANGE[_STATIC_ADDRESSES + self._pick(size)])
            if candidate not in taken:
                return candidate

    def _free_port(self, taken: set[int]) -> int:
        free = [port for port in NODE_PORTS[_STATIC_PORTS:] if port not in taken]
        free = free or [port for port in NODE_PORTS if port not in taken]
        # None left: validation of the port says so.
        return free[self._pick(len(free))] if free else 0

    def _taken(self, request: Request) -> Taken:
        """What the other Services hold, those that are being written included."""
        mine, taken = (SERVICES.resource, request.namespace or "", request.name), Taken()
        holdings: dict[Key, tuple[int, frozenset[str], frozenset[int]]] = {}
        for entry in self._store.scan_latest(SERVICES.resource, None):
            held = self._known.get(entry.key)
            if held is None or held[0] != entry.revision:
                held = entry.revision, *_held(_DECODE(entry.data).spec)
            holdings[entry.key] = held
            if entry.key != mine:
                taken.addresses |= held[1]
                taken.ports |= held[2]
        self._known = holdings
        return taken


def gives_node_ports(spec: ServiceSpec) -> bool:
    """Whether the ports of the Service are open on every node."""
    load_balanced = spec.type == "LoadBalancer" and spec.allocate_load_balancer_node_ports is not False
    return spec.type == "NodePort" or load_balanced


def choose_families(spec: ServiceSpec) -> Iterator[FieldError]:
    """One family of addresses; for a headless Service without selector both, since others tell its addresses."""
    both = spec.cluster_ip == _HEADLESS and not spec.selector
    if not both:
        if spec.ip_family_policy == "RequireDualStack":
            detail = "this cluster is not configured for dual-stack services"
            yield invalid("spec.ipFamilyPolicy", spec.ip_family_policy, detail)
        for index, family in enumerate(spec.ip_families or ()):
            if family == "IPv6":
                yield invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")
    spec.ip_family_policy = spec.ip_family_policy or ("RequireDualStack" if both else "SingleStack")
    dual = both and spec.ip_family_policy != "SingleStack"
    spec.ip_families = spec.ip_families or (["IPv4", "IPv6"] if dual else ["IPv4"])


def keep(new: ServiceSpec, old: ServiceSpec) -> None:
    """Carry over what an update leaves out, and drop what another type of Service has no use for."""
    if old.type != "ExternalName" and not new.cluster_ip and new.type != "ExternalName":
        new.cluster_ip, new.cluster_ips = old.cluster_ip, old.cluster_ips
    elif new.cluster_ip and new.cluster_ip != old.cluster_ip and new.cluster_ips == old.cluster_ips:
        new.cluster_ips = [new.cluster_ip]
    new.ip_families = new.ip_families or (None if new.type == "ExternalName" else old.ip_families)
    new.ip_family_policy = new.ip_family_policy or (None if new.type == "ExternalName" else old.ip_family_policy)
    before = {(port.protocol, port.port): port.node_port for port in old.ports or () if port.node_port}
    if gives_node_ports(new):
        held = {port.node_port for port in new.ports or () if port.node_port}
        for port in new.ports or ():
            kept = before.get((port.protocol, port.port))
            if not port.node_port and kept not in held:
                port.node_port = kept
    elif gives_node_ports(old):
        for port in new.ports or ():
            if port.node_port and port.node_port == before.get((port.protocol, port.port)):
                port.node_port = None
    if new.health_check_node_port is None and _checks_health(new):
        new.health_check_node_port = old.health_check_node_port
    _drop(new, old)


def _drop(new: ServiceSpec, old: ServiceSpec) -> None:
    """Only what the writer left as it was: what he sets against the type, validation refuses."""
    gone: tuple[str, ...] = ()
    if new.type == "ExternalName" and old.type != "ExternalName":
        gone = ("cluster_ip", "cluster_ips", "ip_families", "ip_family_policy", "internal_traffic_policy")
    if new.type not in ("NodePort", "LoadBalancer"):
        gone += ("external_traffic_policy",)
    if new.type != "LoadBalancer":
        gone += ("allocate_load_balancer_node_ports", "load_balancer_class")
    if not _checks_health(new):
        gone += ("health_check_node_port",)
    for name in gone:
        if getattr(new, name) == getattr(old, name):
            setattr(new, name, None)


def _checks_health(spec: ServiceSpec) -> bool:
    return spec.type == "LoadBalancer" and spec.external_traffic_policy == "Local"


def _check_port(path: str, port: int, taken: Taken) -> Iterator[FieldError]:
    if port not in NODE_PORTS:
        valid = f"{NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
        detail = f"provided port is not in the valid range. The range of valid ports is {valid}"
        yield invalid(path, port, detail)
    elif port in taken.ports:
        yield invalid(path, port, "provided port is already allocated")


def _held(spec: ServiceSpec) -> tuple[frozenset[str], frozenset[int]]:
    addresses = {spec.cluster_ip, *(spec.cluster_ips or ())} - {_HEADLESS, "", None}
    ports = {*(port.node_port for port in (spec.ports or [])), spec.health_check_node_port} - {0, None}
    return frozenset(filter(None, addresses)), frozenset(filter(None, ports))
