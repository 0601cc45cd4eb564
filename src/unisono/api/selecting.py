"""Label selectors applied to labels, and written as text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from unisono.api.annotations import USER, tenant
from unisono.api.base import LabelSelector, LabelSelectorRequirement, Object, OwnerReference
from unisono.api.core import Pod, PodSpec
from unisono.api.groups.scheduling import PodGroup
from unisono.api.keys import GROUP_NAME, GROUP_NAME_OF_VOLCANO


def selects(selector: LabelSelector | None, labels: Mapping[str, str] | None) -> bool:
    """Whether the selector fits the labels; no selector fits nothing, an empty one everything."""
    if selector is None:
        return False
    have = labels or {}
    if any(have.get(key) != value for key, value in (selector.match_labels or {}).items()):
        return False
    return all(_holds(requirement, have) for requirement in selector.match_expressions or ())


def _holds(requirement: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(requirement.key), requirement.values or []
    match requirement.operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return False


def is_empty(selector: LabelSelector) -> bool:
    """Whether the selector fits everything."""
    return not selector.match_labels and not selector.match_expressions


def selector_text(selector: LabelSelector | None) -> str:
    """The selector as kubectl and the ``scale`` subresource write it: ``a=b,c in (d,e),!f``."""
    if selector is None:
        return ""
    parts = [(key, f"{key}={value}") for key, value in (selector.match_labels or {}).items()]
    parts += [(one.key, _text(one)) for one in selector.match_expressions or ()]
    return ",".join(text for _, text in sorted(parts))


def _text(requirement: LabelSelectorRequirement) -> str:
    values = ",".join(sorted(requirement.values or ()))
    match requirement.operator:
        case "In":
            return f"{requirement.key} in ({values})"
        case "NotIn":
            return f"{requirement.key} notin ({values})"
        case "DoesNotExist":
            return f"!{requirement.key}"
        case _:
            return requirement.key


# Which controller an object belongs to, which PodGroup a pod, and which queue a PodGroup.
#
# Every room asks here, so that a pod is a member of the same gang for all of them.

DEFAULT_QUEUE = "default"
"""Queue of a PodGroup that names none, unless a component is configured with another."""
ROOT: Final = "root"
"""Queue above all others."""


def controller_of(obj: Object) -> OwnerReference | None:
    """The reference to an object's owner whose ``controller`` is true; None without one.

    A reference is only what its author wrote: code that acts on it compares the UID as well.
    """
    return next((each for each in obj.metadata.owner_references or () if each.controller), None)


def with_keys(
    selector: LabelSelector | None,
    labels: Mapping[str, str],
    same: Sequence[str] | None,
    other: Sequence[str] | None = None,
) -> LabelSelector | None:
    """A selector with a pod's own values of some labels added, as an API server does when the pod is made.

    Labels that the pod lacks add nothing, nor does a key of which the selector says the same already.

    Args:
        selector: of a term of the pod; None selects nothing and stays so.
        labels: of the pod.
        same: ``matchLabelKeys``.
        other: ``mismatchLabelKeys``.
    """
    if selector is None or not (same or other):
        return selector
    present = selector.match_expressions or []
    said = {(one.key, one.operator) for one in present if len(one.values or ()) == 1}
    added = [
        LabelSelectorRequirement(key=key, operator=operator, values=[labels[key]])
        for keys, operator in ((same, "In"), (other, "NotIn"))
        for key in dict.fromkeys(keys or ())
        if key in labels and (key, operator) not in said
    ]
    return LabelSelector(match_labels=selector.match_labels, match_expressions=[*present, *added] or None)


def pod_group_name(annotations: Mapping[str, str] | None, spec: PodSpec | None = None) -> str:
    """Name of the PodGroup that a pod with these annotations and this spec belongs to; empty without one.

    Volcano's two keys are equal; where both are set, Kubernetes' older one wins. A pod with neither belongs to the
    PodGroup that its ``schedulingGroup`` names, which has a PodGroup of ours of the same name.
    """
    annotations = annotations or {}
    named = annotations.get(GROUP_NAME) or annotations.get(GROUP_NAME_OF_VOLCANO)
    if named or spec is None or spec.scheduling_group is None:
        return named or ""
    return spec.scheduling_group.pod_group_name or ""


def pod_group_of(pod: Pod) -> str:
    """``namespace/name`` of the pod's PodGroup; empty without one."""
    name = pod_group_name(pod.metadata.annotations, pod.spec)
    return f"{pod.metadata.namespace}/{name}" if name else ""


def queue_of(group: PodGroup, default: str = DEFAULT_QUEUE) -> str:
    """Name of the queue that the PodGroup is in."""
    return group.spec.queue or default


def lineage(name: str, parents: Mapping[str, str]) -> list[str]:
    """A queue and those above it; a queue without a parent is below ``root``."""
    chain = [name]
    while chain[-1] != ROOT:
        parent = parents.get(chain[-1]) or ROOT
        if parent in chain:
            break
        chain.append(parent)
    return chain


def is_one_of(
    users: Collection[str],
    namespaces: Iterable[str],
    queues: Collection[str],
    account: str,
    namespace: str,
    lines: Iterable[str],
) -> bool:
    """Whether a job is of these users, namespaces or queues.

    Args:
        users: who submitted it.
        namespaces: names; a ``*`` at the end stands for any ending.
        queues: with those below them.
        account: of who submitted the job.
        namespace: of the job.
        lines: the job's queue and those above it.
    """
    if account in users or (queues and any(queue in queues for queue in lines)):
        return True
    return any(namespace.startswith(one[:-1]) if one.endswith("*") else namespace == one for one in namespaces)


def account_of(namespace: str, annotations: Mapping[str, str] | None) -> str:
    """The user on whose behalf a PodGroup is, or its namespace where none is known.

    The service accounts of a namespace are one account, ``system:serviceaccounts:NAMESPACE``, as for the API server. A
    user's name is not a namespace's: names of namespaces that stand for users end in a slash.
    """
    user = (annotations or {}).get(USER)
    return tenant(user) if user else f"{namespace}/"
