"""Pods and claims of a StatefulSet (pure)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from unisono.api import keys
from unisono.api.base import ObjectMeta
from unisono.api.core import (
    PersistentVolumeClaim,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodTemplateSpec,
    Volume,
)
from unisono.api.groups.apps import StatefulSet
from unisono.api.kind_families import STATEFUL_SETS
from unisono.controllers.owners import owned_by
from unisono.controllers.workloads.revisions import REVISION_LABEL
from unisono.controllers.workloads.templates import pod_from

POD_NAME_LABEL = keys.STATEFUL_POD_NAME
INDEX_LABEL = "apps.kubernetes.io/pod-index"


def pod_of(stateful_set: StatefulSet, template: PodTemplateSpec, number: int, revision: str) -> Pod:
    """The pod of a number, with its own name, host name and claims.

    Args:
        stateful_set: its owner.
        template: the template of its revision.
        number: the pod's number.
        revision: name of its revision.

    """
    name = f"{stateful_set.metadata.name}-{number}"
    labels = {POD_NAME_LABEL: name, INDEX_LABEL: str(number), REVISION_LABEL: revision}
    made = pod_from(template, STATEFUL_SETS, stateful_set, name, labels=labels)
    made.metadata.generate_name = f"{stateful_set.metadata.name}-"
    made.spec.hostname = name
    made.spec.subdomain = stateful_set.spec.service_name
    own = {claim.metadata.name: claim for claim in stateful_set.spec.volume_claim_templates or ()}
    volumes = [volume for volume in made.spec.volumes or () if volume.name not in own]
    for claim in own:
        source = PersistentVolumeClaimVolumeSource(claim_name=claim_name(stateful_set, claim, number))
        volumes.append(Volume(name=claim, persistent_volume_claim=source))
    made.spec.volumes = volumes or None
    return made


def claim_name(stateful_set: StatefulSet, template: str, number: int) -> str:
    """``<template>-<set>-<number>``."""
    return f"{template}-{stateful_set.metadata.name}-{number}"


def claims_of(stateful_set: StatefulSet, number: int) -> Iterator[PersistentVolumeClaim]:
    """The claims of the pod of a number; they stay when the pod goes."""
    retention = stateful_set.spec.persistent_volume_claim_retention_policy
    owners = [owned_by(STATEFUL_SETS, stateful_set)] if retention and retention.when_deleted == "Delete" else None
    selector = stateful_set.spec.selector
    for template in stateful_set.spec.volume_claim_templates or ():
        meta = template.metadata
        yield PersistentVolumeClaim(
            metadata=ObjectMeta(
                name=claim_name(stateful_set, meta.name, number),
                namespace=stateful_set.metadata.namespace,
                labels={**(meta.labels or {}), **((selector.match_labels if selector else None) or {})} or None,
                annotations=meta.annotations,
                owner_references=owners,
            ),
            spec=msgspec.structs.replace(template.spec),
        )
