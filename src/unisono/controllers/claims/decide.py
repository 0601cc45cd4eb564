"""Claims for devices that are made for pods, and which pods go on using them: pure functions."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from unisono.api.base import ObjectMeta, OwnerReference
from unisono.api.core import (
    Pod,
    PodResourceClaim,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimTemplate,
)
from unisono.api.extended_devices import limit_claim
from unisono.api.keys import POD_CLAIM_NAME
from unisono.api.pod_states import has_ended

MOST_USERS = 256
# Leaves room for the hyphen and five characters that the server adds to a generated name.
_STEM = 57


def stem(pod: str, claim: str) -> str:
    """``POD-CLAIM-``, to which the server adds five characters; both are cut where that would be too long."""
    full = f"{pod}-{claim}-"
    if len(full) <= _STEM:
        return full
    return f"{pod[: len(pod) * _STEM // len(full)]}-{claim[: len(claim) * _STEM // len(full)]}"


def claim_from(template: ResourceClaimTemplate, pod: Pod, wanted: PodResourceClaim) -> ResourceClaim:
    """The claim of a pod, made from a template."""
    given = template.spec.metadata or ObjectMeta()
    return ResourceClaim(
        metadata=ObjectMeta(
            generate_name=stem(pod.metadata.name, wanted.name),
            namespace=pod.metadata.namespace,
            labels=given.labels,
            annotations={**(given.annotations or {}), POD_CLAIM_NAME: wanted.name},
            owner_references=[
                OwnerReference(
                    api_version="v1",
                    kind="Pod",
                    name=pod.metadata.name,
                    uid=pod.metadata.uid or "",
                    controller=True,
                )
            ],
        ),
        spec=msgspec.structs.replace(template.spec.spec),
    )


def made_for(pod: Pod, wanted: PodResourceClaim, owned: Iterable[ResourceClaim]) -> ResourceClaim | None:
    """The claim that was made for one entry of the pod, among those that the pod owns."""
    fitting = [
        each
        for each in owned
        if (each.metadata.annotations or {}).get(POD_CLAIM_NAME) == wanted.name and not each.metadata.deletion_timestamp
    ]
    return min(fitting, key=lambda each: each.metadata.name, default=None)


def recorded(pod: Pod) -> dict[str, str | None]:
    """What the pod's status says: the name of the claim by entry, None for one that is not needed."""
    return {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses or ()}


def is_done(pod: Pod) -> bool:
    """Whether nothing of the pod will run any more: it ended, or was deleted before it had a node."""
    if has_ended(pod):
        return True
    return pod.metadata.deletion_timestamp is not None and not pod.spec.node_name


def uses(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether the claim is reserved for the pod."""
    return any(each.uid == pod.metadata.uid for each in claim.status.reserved_for or ())


def is_pod(user: ResourceClaimConsumerReference) -> bool:
    """Whether the user of a claim is a pod; others are not ours to judge."""
    return not user.api_group and user.resource == "pods"


def needs_claims(pod: Pod) -> bool:
    """Whether the pod has resource claims: that it names, or that stand for its limits."""
    return bool(pod.spec.resource_claims) or limit_claim(pod) is not None


def claim_keys(pod: Pod) -> list[str]:
    """Index function: keys of the claims that the pod names, or that were made for it."""
    names = [each.resource_claim_name for each in pod.spec.resource_claims or ()]
    names += [each.resource_claim_name for each in pod.status.resource_claim_statuses or ()]
    names.append(limit_claim(pod))
    return [f"{pod.metadata.namespace}/{name}" for name in dict.fromkeys(names) if name]


def template_keys(pod: Pod) -> list[str]:
    """Index function: keys of the templates that the pod names."""
    names = (each.resource_claim_template_name for each in pod.spec.resource_claims or ())
    return [f"{pod.metadata.namespace}/{name}" for name in names if name]
