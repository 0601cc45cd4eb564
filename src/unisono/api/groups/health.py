"""What is known of the health of nodes (``health.unisono.io``): NodeChecks, which nodes must pass between jobs."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from unisono.api.base import Base, Condition, IntOrString, LongName, Natural, Object, Positive
from unisono.api.core.pod import PodTemplateSpec

FIRST = "BeforeFirstJob"
USE = "AfterUse"
FAILURE = "AfterFailure"
FAULT = "AfterFault"
WHEN = (FIRST, USE, FAILURE, FAULT)

_Names = Annotated[list[str], Meta(extra_json_schema={"maxItems": 1000})]


class NodeCheckSpec(Base):
    """Which nodes are checked, when, by what, and what a failure does.

    Attributes:
        nodes: names of nodes; ``*`` stands for any characters, ``?`` for one.
        node_selector: labels that the nodes have.
        when: BeforeFirstJob, AfterUse, AfterFailure, AfterFault; all of them without it.
        idle_every: nodes without use are checked again after this time, such as ``24h``.
        resources: extended resources; pods that have some use the node. All extended resources without it.
        template: the pod that checks a node; it passes where it succeeds.
        image, command: in place of a template: a pod of one container.
        namespace: where the pods are made; ``default`` without it.
        timeout: how long one try may take; ``5m`` without it.
        retries: how many more tries a node has; 1 without it.
        quarantine_for: how long a node stays out that failed; it is checked again then. Until somebody lifts it
            without this.
        quarantine_after_faults: a node in whose book of faults so many are left leaves without a check.
        max_concurrent: how many nodes are checked at a time, as a number or a part of the nodes; ``10%`` without it.
        max_quarantined: how many may be out because of this check; of more the check itself is suspected. ``30%``
            without it.
    """

    nodes: _Names | None = None
    node_selector: dict[str, str] | None = None
    when: Annotated[list[str], Meta(extra_json_schema={"maxItems": 4})] | None = None
    idle_every: str | None = None
    resources: Annotated[list[str], Meta(extra_json_schema={"maxItems": 32})] | None = None
    template: PodTemplateSpec | None = None
    image: str | None = None
    command: Annotated[list[str], Meta(extra_json_schema={"maxItems": 256})] | None = None
    namespace: LongName | None = None
    timeout: str | None = None
    retries: Natural | None = None
    quarantine_for: str | None = None
    quarantine_after_faults: Positive | None = None
    max_concurrent: IntOrString | None = None
    max_quarantined: IntOrString | None = None


class NodeCheckStatus(Base):
    """How the nodes stand.

    Attributes:
        nodes: how many the check is about.
        passed, waiting, checking, quarantined: how many of them have passed since they were used last, wait for a check
            (those in use included), are being checked, or are out.
        kept: how many failed and are in use all the same, because more than ``spec.maxQuarantined`` would be out.
        conditions: ``Suspected``: whether that is so.
    """

    nodes: Natural | None = None
    passed: Natural | None = None
    waiting: Natural | None = None
    checking: Natural | None = None
    quarantined: Natural | None = None
    kept: Natural | None = None
    conditions: list[Condition] | None = None


class NodeCheck(Object):
    """A short check that nodes pass between jobs, or leave service."""

    spec: NodeCheckSpec = msgspec.field(default_factory=NodeCheckSpec)
    status: NodeCheckStatus = msgspec.field(default_factory=NodeCheckStatus)
