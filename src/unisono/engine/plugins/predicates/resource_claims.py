"""Claims for devices (dynamic resource allocation): which nodes can serve them, and what they get."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from uuid import NAMESPACE_OID, uuid5

import numpy as np

from unisono.api import core
from unisono.api.extended_devices import classes_by_resource
from unisono.api.messages import resource_claim_not_found
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.engine.answers import BoolArray, Reason, Veto
from unisono.engine.decisions import ClaimAllocation
from unisono.engine.plugins.common.node_selectors import match_selector
from unisono.engine.plugins.predicates.claim_allocator import ClaimError, ClaimPlan, Gift, Given, allocate, plan
from unisono.engine.plugins.predicates.device_inventory import Inventory, on_node, written
from unisono.engine.plugins.predicates.volumes import Source
from unisono.engine.session.session import Session

MOST_USERS = 256
"""Pods that may use one claim."""
NOT_HERE = Reason("resourceclaim not available on the node", unresolvable=True)
NO_DEVICES = Reason("cannot allocate all claims", unresolvable=True)
AWAITED = Reason("waiting for the resource claims of the pod to be created", unresolvable=True)
IN_USE = Reason("resourceclaim in use", unresolvable=True)
_Signature = tuple[bool, tuple[int, ...], tuple[int, ...], tuple[object, ...]]


@dataclass(slots=True)
class Grant:
    """Devices that a claim gets in this session, on which node, and how many pods of the session use it."""

    devices: list[Gift]
    column: int
    users: int = 0


class ClaimLedger:
    """Claims and devices of one session."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.catalogue = session.snapshot.catalogue
        self.changes = Source()
        self.grants: dict[str, Grant] = {}
        slices, claims = self.catalogue.device_slices.values(), self.catalogue.device_claims.values()
        self.inventory = Inventory(slices, claims, session.nodes, reported_too(session))
        self._plans: dict[str, ClaimPlan | ClaimError] = {}
        self._signatures: list[_Signature | None] = [None] * session.nodes.size
        self._where: dict[int, list[int]] = {}
        for column, units in enumerate(self.inventory.by_node):
            for unit in units:
                self._where.setdefault(id(unit), []).append(column)

    def claim(self, key: str) -> core.ResourceClaim | None:
        """The claim, None when it does not exist."""
        return self.catalogue.device_claims.get(key)

    def is_open(self, key: str) -> bool:
        """Whether a claim exists and has no devices yet."""
        claim = self.claim(key)
        return claim is not None and claim.status.allocation is None and key not in self.grants

    def plans(self, pod_class: PodClass) -> list[ClaimPlan]:
        """What the open claims of a class want.

        Raises:
            ClaimError: one of them cannot be read.
        """
        claim_plans = []
        for key in pod_class.devices:
            if not self.is_open(key):
                continue
            entry = self._plans.get(key)
            if entry is None:
                claim = self.catalogue.device_claims[key]
                try:
                    entry = plan(claim, self.catalogue.device_classes)
                except ClaimError as error:
                    entry = error
                self._plans[key] = entry
            if isinstance(entry, ClaimError):
                raise entry
            claim_plans.append(entry)
        return claim_plans

    def signature(self, column: int) -> _Signature:
        """Nodes with equal signatures can serve the same claims."""
        inventory, current = self.inventory, self._signatures[column]
        if inventory.settle(column) or current is None:
            current = self._signatures[column] = (
                bool(inventory.incomplete[column]),
                tuple(unit.alike for unit in inventory.by_node[column]),
                tuple(unit.alike for unit in inventory.free(column)),
                inventory.state(column),
            )
        return current

    def serve(self, plans: Sequence[ClaimPlan], column: int) -> Given | None:
        """Devices of one node for all claims, or None.

        Raises:
            ClaimError: a selector has no answer for a device of the node.
        """
        inventory = self.inventory
        inventory.settle(column)
        incomplete = bool(inventory.incomplete[column])
        free = inventory.free(column)
        return allocate(plans, inventory.by_node[column], free, inventory.book, incomplete=incomplete)

    # ---- following the session

    def placed(self, pod_class: PodClass, columns: Sequence[int]) -> None:
        """Pods came: give devices to claims that have none yet."""
        self.changes.version += 1
        for column in columns:
            plans = self.plans(pod_class)
            given = self.serve(plans, column) if plans else []
            if given is None:
                raise ClaimError(f"node {self.session.snapshot.nodes.names[column]} has no devices for {plans[0].key}")
            for one in plans:
                self.grants[one.key] = Grant([gift for gift in given if gift.claim == one.key], column)
            for gift in given:
                self._use(gift, 1)
            for key in pod_class.devices:
                if key in self.grants:
                    self.grants[key].users += 1

    def removed(self, pod_class: PodClass, columns: Sequence[int]) -> None:
        """Pods went: claims that no other pod uses give their devices back."""
        self.changes.version += 1
        for _ in columns:
            for key in pod_class.devices:
                grant = self.grants.get(key)
                if grant is None:
                    continue
                grant.users -= 1
                if grant.users <= 0:
                    del self.grants[key]
                    for gift in grant.devices:
                        self._use(gift, -1)

    def _use(self, gift: Gift, sign: int) -> None:
        if not gift.want.admin:
            self.inventory.use(gift.unit, gift.share, sign)
            for column in self._where.get(id(gift.unit), ()):
                self._signatures[column] = None

    # ---- what is written

    def allocations(self, task: Task) -> tuple[ClaimAllocation, ...]:
        """What the claims of a pod get, or only that the pod uses them."""
        results = []
        for key in task.pod_class.devices:
            claim, grant = self.claim(key), self.grants.get(key)
            if claim is None or (grant is None and any(u.uid == task.uid for u in claim.status.reserved_for or ())):
                continue
            meta = claim.metadata
            given = self._result(claim, grant) if grant is not None else None
            results.append(ClaimAllocation(meta.namespace or "", meta.name, meta.uid or "", given))
        return tuple(results)

    def _result(self, claim: core.ResourceClaim, grant: Grant) -> core.AllocationResult:
        results = [_result_of(claim, number, gift) for number, gift in enumerate(grant.devices)]
        devices = core.DeviceAllocationResult(results=results, config=self._config(claim) or None)
        return core.AllocationResult(devices=devices, node_selector=self._reach_of(grant))

    def _reach_of(self, grant: Grant) -> core.NodeSelector | None:
        """From where all devices can be used."""
        here = on_node(self.session.snapshot.nodes.names[grant.column])
        bound = any(gift.unit.device.binds_to_node for gift in grant.devices)
        return here if bound else _everywhere([gift.unit.scope for gift in grant.devices])

    def _config(self, claim: core.ResourceClaim) -> list[core.DeviceAllocationConfiguration]:
        configurations = []
        for request in claim.spec.devices.requests or ():
            names = [request.exactly.device_class_name] if request.exactly is not None else []
            names += [sub.device_class_name for sub in request.first_available or ()]
            for name in names:
                device_class = self.catalogue.device_classes.get(name)
                for entry in (device_class.spec.config or ()) if device_class is not None else ():
                    configurations.append(
                        core.DeviceAllocationConfiguration(
                            source="FromClass", requests=[request.name], opaque=entry.opaque
                        )
                    )
        for given in claim.spec.devices.config or ():
            configurations.append(
                core.DeviceAllocationConfiguration(source="FromClaim", requests=given.requests, opaque=given.opaque)
            )
        return configurations

    def reach(self, key: str) -> BoolArray:
        """``[N]`` nodes that can use what a claim has, or gets in this session."""
        claim, grant = self.claim(key), self.grants.get(key)
        nodes = self.session.nodes
        selector = None
        if grant is not None:
            selector = self._reach_of(grant)
        elif claim is not None and claim.status.allocation is not None:
            selector = claim.status.allocation.node_selector
        return np.ones(nodes.size, dtype=np.bool_) if selector is None else match_selector(selector, nodes)


def reported_too(session: Session) -> dict[str, core.DeviceClass]:
    """Extended resources that device classes serve and that nodes report as well, with their classes."""
    served = classes_by_resource(session.snapshot.catalogue.device_classes.values())
    registry = session.snapshot.registry
    return {name: one for name, one in served.items() if registry.find(name) is not None}


class LimitFilter:
    """Filter of one class that has devices by limits: what claims got in this session is not free.

    What claims had before is missing in ``allocatable`` already.

    Attributes:
        sources: what the answer depends on.
        self_affecting: its pods are counted by the engine itself.
    """

    self_affecting = False

    def __init__(self, wanted: Mapping[str, int], ledger: ClaimLedger) -> None:
        self._wanted, self._ledger = wanted, ledger
        self.sources = [ledger.changes]

    def vetoes(self) -> list[Veto]:
        """Over all nodes."""
        nodes, inventory = self._ledger.session.nodes, self._ledger.inventory
        refusals = []
        for name, amount in self._wanted.items():
            granted = inventory.granted(name)
            row = nodes.table.registry.row(name)
            short = (granted > 0) & (nodes.allocatable[row] - nodes.used[row] - granted < amount)
            refusals.append(Veto(short, Reason(f"Insufficient {name}", apart=True)))
        return refusals


class AwaitedFilter:
    """Filter of one class whose limits are served by a claim that is not there yet: no node that needs it."""

    self_affecting = False

    def __init__(self, names: Collection[str], session: Session) -> None:
        self._names, self._nodes = names, session.nodes
        self.sources = [Source()]

    def vetoes(self) -> list[Veto]:
        """Over all nodes."""
        facts = [self._nodes.table.facts[column] for column in self._nodes.columns]
        away = np.array([any(name in one.by_claims for name in self._names) for one in facts], dtype=np.bool_)
        return [Veto(away, AWAITED)]


def _result_of(claim: core.ResourceClaim, number: int, gift: Gift) -> core.DeviceRequestAllocationResult:
    want, unit = gift.want, gift.unit
    share = gift.share if unit.shared and not want.admin else None
    return core.DeviceRequestAllocationResult(
        request=want.request,
        driver=unit.name[0],
        pool=unit.name[1],
        device=unit.name[2],
        admin_access=True if want.admin else None,
        tolerations=list(want.tolerations) or None,
        binding_conditions=unit.device.binding_conditions or None,
        binding_failure_conditions=unit.device.binding_failure_conditions or None,
        share_id=_share_id(claim, number, gift) if share is not None else None,
        consumed_capacity=(written(share, unit.device.capacity or (), unit.name[0]) or None) if share else None,
    )


def _share_id(claim: core.ResourceClaim, number: int, gift: Gift) -> str:
    """The same for the same decision, and another one for every share."""
    return str(uuid5(NAMESPACE_OID, f"{claim.metadata.uid}/{number}/{'/'.join(gift.unit.name)}"))


def _everywhere(scopes: Sequence[core.NodeSelector | None]) -> core.NodeSelector | None:
    """The selector of nodes from where all devices can be used: one term with the requirements of all; None: any."""
    distinct = [scope for index, scope in enumerate(scopes) if scope is not None and scope not in scopes[:index]]
    if not distinct:
        return None
    if len(distinct) == 1:
        return distinct[0]
    terms = [term for scope in distinct for term in (scope.node_selector_terms or ())[:1]]
    return core.NodeSelector(
        node_selector_terms=[
            core.NodeSelectorTerm(
                match_expressions=[e for term in terms for e in term.match_expressions or ()] or None,
                match_fields=[f for term in terms for f in term.match_fields or ()] or None,
            )
        ]
    )


class ClaimFilter:
    """Filter of one class with device claims.

    Attributes:
        sources: what the answer depends on.
        self_affecting: devices are taken by the first pod of the class.
    """

    self_affecting = True

    def __init__(self, pod_class: PodClass, ledger: ClaimLedger) -> None:
        self.pod_class = pod_class
        self.ledger = ledger
        self.sources = [ledger.changes]
        self._known: dict[tuple[tuple[str, ...], _Signature], bool] = {}

    def vetoes(self) -> list[Veto]:
        """Over all nodes."""
        size = self.ledger.session.nodes.size
        reason = self._broken()
        if reason is not None:
            return [Veto(np.ones(size, dtype=np.bool_), reason)]
        away = np.zeros(size, dtype=np.bool_)
        for key in self.pod_class.devices:
            if not self.ledger.is_open(key):
                away |= ~self.ledger.reach(key)
        plans = self.ledger.plans(self.pod_class)
        if not plans:
            return [Veto(away, NOT_HERE)]
        try:
            lacking = np.array([not self._serves(plans, column) for column in range(size)], dtype=np.bool_)
        except ClaimError as error:
            return [Veto(np.ones(size, dtype=np.bool_), Reason(str(error), unresolvable=True))]
        return [Veto(away, NOT_HERE), Veto(lacking & ~away, NO_DEVICES)]

    def _broken(self) -> Reason | None:
        """A reason that holds on every node."""
        for key in self.pod_class.devices:
            claim, name = self.ledger.claim(key), key.partition("/")[2]
            if name.endswith("/"):
                return AWAITED
            if claim is None:
                return Reason(resource_claim_not_found(name), unresolvable=True)
            if claim.metadata.deletion_timestamp is not None:
                return Reason(f'resourceclaim "{name}" is being deleted', unresolvable=True)
            grant = self.ledger.grants.get(key)
            if len(claim.status.reserved_for or ()) + (grant.users if grant is not None else 0) >= MOST_USERS:
                return IN_USE
        try:
            self.ledger.plans(self.pod_class)
        except ClaimError as error:
            return Reason(str(error), unresolvable=True)
        return None

    def _serves(self, plans: Sequence[ClaimPlan], column: int) -> bool:
        key = (tuple(one.key for one in plans), self.ledger.signature(column))
        served = self._known.get(key)
        if served is None:
            served = self._known[key] = self.ledger.serve(plans, column) is not None
        return served
