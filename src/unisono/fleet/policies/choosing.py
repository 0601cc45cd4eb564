"""Which PropagationPolicy is about a job (pure), by Karmada's order."""

from __future__ import annotations

from collections.abc import Iterable

from unisono.api.propagation import ClusterPropagationPolicy, PropagationPolicy, ResourceSelector
from unisono.api.selecting import is_empty, selects
from unisono.fleet.policies.subject import Subject

Policy = PropagationPolicy | ClusterPropagationPolicy


def policy_of(
    subject: Subject, own: Iterable[PropagationPolicy], all_: Iterable[ClusterPropagationPolicy]
) -> Policy | None:
    """The policy that counts: of the namespace before those of all, then by priority, closeness and name.

    Args:
        subject: the job.
        own: policies of its namespace.
        all_: policies of all namespaces.

    """
    return _best(subject, own) or _best(subject, all_)


def _best(subject: Subject, policies: Iterable[Policy]) -> Policy | None:
    found = []
    for policy in policies:
        close = max((_closeness(each, subject) for each in policy.spec.resource_selectors or ()), default=0)
        if close and not policy.metadata.deletion_timestamp:
            found.append((-(policy.spec.priority or 0), -close, policy.metadata.name, policy))
    return min(found, key=lambda each: each[:3])[3] if found else None


def _closeness(selector: ResourceSelector, subject: Subject) -> int:
    """3 where it names the job, 2 where it selects its labels, 1 where it means the kind, else 0."""
    if selector.kind != subject.kind or selector.api_version not in subject.api_versions:
        return 0
    if selector.namespace and selector.namespace != subject.namespace:
        return 0
    if selector.name:
        return 3 if selector.name == subject.name else 0
    wanted = selector.label_selector
    if wanted is None or is_empty(wanted):
        return 1
    return 2 if selects(wanted, subject.labels) else 0
