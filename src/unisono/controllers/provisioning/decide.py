"""What a waiting gang asks the cluster autoscaler for (pure)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from unisono.api.base import ObjectMeta
from unisono.api.core import Pod, PodTemplateSpec
from unisono.api.groups.autoscaling import (
    PodSet,
    PodTemplate,
    PodTemplateRef,
    ProvisioningRequest,
    ProvisioningRequestSpec,
)
from unisono.api.groups.scheduling import PodGroup
from unisono.api.kinds import POD_GROUPS
from unisono.controllers.owners import owned_by

_LONGEST_NAME = 253 - 16


def next_attempt(requests: Sequence[ProvisioningRequest], *, most: int) -> int:
    """Number of the request to make now, from 1; 0 when one is under way or has been fulfilled, or all have failed."""
    open_ones = [each for each in requests if not each.has("Failed")]
    return 0 if open_ones or len(requests) >= most else len(requests) + 1


def request_for(
    group: PodGroup, pods: Sequence[Pod], class_name: str, attempt: int
) -> tuple[ProvisioningRequest, list[PodTemplate]]:
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
        templates.append(PodTemplate(metadata=meta, template=template))
        sets.append(PodSet(PodTemplateRef(meta.name), len(same)))
    spec_of = ProvisioningRequestSpec(provisioning_class_name=class_name, pod_sets=sets)
    return ProvisioningRequest(metadata=_meta(name, group), spec=spec_of), templates


def _meta(name: str, group: PodGroup) -> ObjectMeta:
    owner = owned_by(POD_GROUPS, group)
    return ObjectMeta(name=name, namespace=group.metadata.namespace, owner_references=[owner])


def _essence(pod: Pod) -> bytes:
    """A pod's spec without what tells it from its equals."""
    return msgspec.json.encode(msgspec.structs.replace(pod.spec, node_name=None, hostname=None))
