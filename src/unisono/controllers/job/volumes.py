"""Job-wide volumes: the claims they need and how they get into every container."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass

import msgspec

from unisono.api.base import ObjectMeta
from unisono.api.core import (
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimVolumeSource,
    Pod,
    Volume,
    VolumeMount,
)
from unisono.api.groups.batch import VolumeSpec
from unisono.api.kinds import JOBS, PERSISTENT_VOLUME_CLAIMS
from unisono.controllers.job.view import JobView
from unisono.controllers.owners import owned_by
from unisono.controllers.plan import Resource


@dataclass(frozen=True, slots=True)
class JobVolume:
    """One volume of the job.

    Attributes:
        name: name of the volume in the pods.
        claim: name of its claim.
        mount_path: where containers see it.
        spec: the claim to make, None when it must exist already.

    """

    name: str
    claim: str
    mount_path: str
    spec: PersistentVolumeClaimSpec | None


def job_volumes(view: JobView) -> list[JobVolume]:
    """The job's volumes; a second entry with the same claim is skipped.

    Names are derived from the job's UID and the entry's place, so every pod and every retry gets the same ones.
    """
    volumes: dict[str, JobVolume] = {}
    for position, given in enumerate(view.spec.volumes or ()):
        digest = _digest(view, position)
        claim = given.volume_claim_name or _claim_name(view, position)
        if claim not in volumes:
            volumes[claim] = JobVolume(f"job-volume-{digest}", claim, given.mount_path, given.volume_claim)
    return list(volumes.values())


def named_volumes(view: JobView) -> list[VolumeSpec]:
    """The volumes with the names of the claims that are made for them; empty where the spec has them all.

    The name belongs into the spec: that is where people and other controllers look for it.
    """
    given = view.job.spec.volumes or []
    if all(each.volume_claim is None or each.volume_claim_name for each in given):
        return []
    return [
        each
        if each.volume_claim is None or each.volume_claim_name
        else msgspec.structs.replace(each, volume_claim_name=_claim_name(view, position))
        for position, each in enumerate(given)
    ]


def claims_to_make(view: JobView) -> list[Resource]:
    """Claims that the job makes for itself; they go with the job and not before."""
    return [
        Resource(
            PERSISTENT_VOLUME_CLAIMS,
            PersistentVolumeClaim(
                metadata=ObjectMeta(
                    name=volume.claim, namespace=view.namespace, owner_references=[owned_by(JOBS, view.job)]
                ),
                spec=volume.spec,
            ),
            permanent=True,
            what="volume",
            warning="PVCError",
        )
        for volume in job_volumes(view)
        if volume.spec is not None
    ]


def missing_claims(view: JobView, existing: Collection[str]) -> list[str]:
    """Claims that the job expects to find and that are not there."""
    return [v.claim for v in job_volumes(view) if v.spec is None and v.claim not in existing]


def _claim_name(view: JobView, position: int) -> str:
    return f"{view.name}-pvc-{_digest(view, position)}"


def _digest(view: JobView, position: int) -> str:
    return hashlib.sha256(f"{view.uid}/{position}".encode()).hexdigest()[:12]


def mount(view: JobView, pod: Pod) -> None:
    """Put the job's volumes into the pod and mount them in every container; init containers go without."""
    for volume in job_volumes(view):
        source = PersistentVolumeClaimVolumeSource(claim_name=volume.claim)
        pod.spec.volumes = [*(pod.spec.volumes or ()), Volume(name=volume.name, persistent_volume_claim=source)]
        for container in pod.spec.containers or ():
            mounts = container.volume_mounts or []
            container.volume_mounts = [*mounts, VolumeMount(name=volume.name, mount_path=volume.mount_path)]
