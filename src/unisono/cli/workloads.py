"""Which manifests ``unisono run`` follows to their end, and what it adds so that they run on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unisono.cli.manifests import Manifest


# Jobs that tell by their conditions how they ended; training kinds come in several versions.
BY_CONDITIONS = frozenset(
    {
        *(("kubeflow.org", kind) for kind in ("PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob")),
        ("trainer.kubeflow.org", "TrainJob"),
        ("jobset.x-k8s.io", "JobSet"),
        ("ray.io", "RayJob"),
        ("flow.volcano.sh", "JobFlow"),
        ("training.volcano.sh", "HyperJob"),
        ("batch", "Job"),
    }
)


def is_workload(manifest: Manifest) -> bool:
    """The manifest is a job or a pod, which runs and ends."""
    kind = manifest.api_version.rpartition("/")[0], manifest.kind
    return kind in {("batch.volcano.sh", "Job"), ("", "Pod")} or kind in BY_CONDITIONS


def target_kind(manifest: Manifest) -> str:
    """What ``Follower`` calls the kind of a workload: ``Job`` of Volcano, ``Pod``, else the resource's full name.

    Raises:
        UnisonoError: the kind exists, but not in this version.

    """
    from unisono.api.kinds import find
    from unisono.errors import UnisonoError

    if (manifest.api_version.rpartition("/")[0], manifest.kind) not in BY_CONDITIONS:
        return manifest.kind
    kind = find(manifest.api_version, manifest.kind)
    if kind is None:
        raise UnisonoError(f"{manifest.where}: there is no {manifest.kind} in version {manifest.api_version}.")
    return kind.resource


def mark_working_directory(manifest: Manifest) -> None:
    """Let the manifest's pods start in its folder where a container names no workingDir.

    A file such as ``command: [python, train.py]`` then finds ``train.py`` beside it, as an image would hold it.
    """
    from unisono.sdk.work import mark_folder

    mark_folder(manifest.value, manifest.folder)
