"""Which version of MPIJob its author meant: the versions share their fields, yet label pods differently."""

from __future__ import annotations

from typing import Any, Final

from unisono.api.base import Object
from unisono.api.groups.kubeflow import MPIJobSpec
from unisono.api.keys import LAST_APPLIED
from unisono.controllers.texts import json_object

V1: Final = "v1"
V2BETA1: Final = "v2beta1"


def version_of(job: Object) -> str:
    """``v1`` or ``v2beta1``: as applied, else as first written, else by fields that only ``v2beta1`` has."""
    for version in (_applied(job), _written(job)):
        if version:
            return version
    spec: MPIJobSpec = job.spec  # type: ignore[attr-defined]
    later = (spec.run_launcher_as_worker, spec.ssh_auth_mount_path, spec.launcher_creation_policy)
    return V2BETA1 if spec.mpi_implementation or any(each is not None for each in later) else V1


def _applied(job: Object) -> str:
    return _known(json_object((job.metadata.annotations or {}).get(LAST_APPLIED)).get("apiVersion"))


def _written(job: Object) -> str:
    """The version in which the roles were written, as the API server notes it for each writer."""
    for entry in job.metadata.managed_fields or ():
        fields: Any = entry.get("fieldsV1")
        spec = fields.get("f:spec") if isinstance(fields, dict) else None
        if isinstance(spec, dict) and "f:mpiReplicaSpecs" in spec:
            return _known(entry.get("apiVersion"))
    return ""


def _known(api_version: Any) -> str:
    version = str(api_version or "").rpartition("/")[2]
    return version if version in (V1, V2BETA1) else ""
