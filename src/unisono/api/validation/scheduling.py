"""Rules of pod groups and queues that concern one object alone."""

from __future__ import annotations

import math
from collections.abc import Iterator

from unisono.api.defaulting.scheduling import ROOT_QUEUE
from unisono.api.field_error import FieldError, forbidden, invalid, not_supported
from unisono.api.fields import ResourceList
from unisono.api.keys import HIERARCHY, HIERARCHY_WEIGHTS
from unisono.api.messages import TOPOLOGY_EXCLUSIVE
from unisono.api.quantity import QuantityError, canonical, parse_quantity
from unisono.api.scheduling import PodGroup, Queue
from unisono.api.validation.meta import validate_selector
from unisono.api.validation.quantities import validate_resource_map


def validate_pod_group(group: PodGroup, old: PodGroup | None) -> Iterator[FieldError]:
    """Sizes, amounts and topology of a gang."""
    spec = group.spec
    for task, minimum in (spec.min_task_member or {}).items():
        if minimum < 0:
            yield invalid(f"spec.minTaskMember[{task}]", minimum, "must be greater than or equal to 0")
    yield from validate_resource_map(spec.min_resources, "spec.minResources")
    topology = spec.network_topology
    if topology is not None and topology.highest_tier_allowed is not None and topology.highest_tier_name:
        yield invalid("spec.networkTopology", topology.highest_tier_name, f"{TOPOLOGY_EXCLUSIVE}.")
    for index, policy in enumerate(spec.sub_group_policy or ()):
        at = f"spec.subGroupPolicy[{index}]"
        yield from validate_selector(policy.label_selector, f"{at}.labelSelector")
        below = policy.network_topology
        if below is not None and below.highest_tier_allowed is not None and below.highest_tier_name:
            detail = f"in subGroupPolicy '{policy.name or ''}': {TOPOLOGY_EXCLUSIVE}."
            yield invalid(f"{at}.networkTopology", below.highest_tier_name, detail)


def validate_queue(queue: Queue, old: Queue | None) -> Iterator[FieldError]:
    """Amounts, their order, state, hierarchy annotations; the root queue stays as it is."""
    spec, name = queue.spec, queue.metadata.name
    guarantee = spec.guarantee.resource if spec.guarantee is not None else None
    errors = [
        *validate_resource_map(spec.capability, "spec.capability"),
        *validate_resource_map(spec.deserved, "spec.deserved"),
        *validate_resource_map(guarantee, "spec.guarantee.resource"),
    ]
    yield from errors
    if not errors:
        yield from _ordered(spec.capability or {}, spec.deserved, guarantee or {})
    for index, cluster in enumerate(spec.extend_clusters or ()):
        yield from validate_resource_map(cluster.capacity, f"spec.extendClusters[{index}].capacity")
    # Closing and Unknown are written by the controller; a user may ask for Open or Closed.
    if old is None and queue.status.state not in (None, "", "Open", "Closed"):
        yield not_supported("status.state", queue.status.state, ("Open", "Closed"))
    yield from _hierarchy(queue.metadata.annotations or {})
    if name and spec.parent == name:
        yield invalid("spec.parent", spec.parent, f"queue {name} cannot use itself as parent")
    if old is not None and name == ROOT_QUEUE:
        before = old.spec
        if (spec.capability, spec.deserved, spec.guarantee) != (before.capability, before.deserved, before.guarantee):
            detail = "root queue's resource attributes (capability, deserved, guarantee) cannot be modified"
            yield forbidden("spec", detail)


def _ordered(capability: ResourceList, deserved: ResourceList | None, guarantee: ResourceList) -> Iterator[FieldError]:
    """Guarantee <= deserved <= capability, per resource.

    Unlike Volcano, a guarantee without any ``deserved`` is fine as long as the capability covers it: that is how queues
    for the proportion plug-in are written.
    """
    for name, least in guarantee.items():
        bound, title = (deserved, "deserved") if deserved else (capability, "capability")
        path = f"spec.{title}[{name}]"
        if deserved and name not in deserved:
            yield invalid(path, "", f"deserved[{name}] must be >= guarantee[{name}]={canonical(least)}")
        elif name in bound and _less(bound[name], least):
            have = canonical(bound[name])
            yield invalid(path, have, f"{title}[{name}]={have} must be >= guarantee[{name}]={canonical(least)}")
    for name, share in (deserved or {}).items():
        if name in capability and _less(capability[name], share):
            limit, have = canonical(capability[name]), canonical(share)
            detail = f"deserved[{name}]={have} must be <= capability[{name}]={limit}"
            yield invalid(f"spec.deserved[{name}]", have, detail)


def _less(left: str | int | float, right: str | int | float) -> bool:
    try:
        return parse_quantity(left) < parse_quantity(right)
    except QuantityError:
        return False


def _hierarchy(annotations: dict[str, str]) -> Iterator[FieldError]:
    path, weights = annotations.get(HIERARCHY, ""), annotations.get(HIERARCHY_WEIGHTS, "")
    if not path and not weights:
        return
    where = "metadata.annotations"
    shares = weights.split("/")
    if len(path.split("/")) != len(shares):
        yield invalid(where, path, f"{HIERARCHY} must have the same length with {HIERARCHY_WEIGHTS}")
    for share in shares:
        try:
            value = float(share)
        except ValueError:
            value = math.nan
        if math.isnan(value):
            yield invalid(where, weights, f"{share} in the {weights} is invalid number: write a number above 0")
        elif value <= 0:
            yield invalid(where, weights, f"{share} in the {weights} must be larger than 0")
