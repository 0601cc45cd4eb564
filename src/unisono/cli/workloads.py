"""Which manifests ``unisono run`` follows to their end, and what it adds so that they run on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unisono.api.kind import Kind
    from unisono.cli.manifests import Manifest


def is_workload(manifest: Manifest) -> bool:
    """The manifest is a job or a pod, which runs and ends."""
    from unisono.sdk.job_kinds import is_job

    return (manifest.api_version, manifest.kind) == ("v1", "Pod") or is_job(manifest.api_version, manifest.kind)


def nothing_to_run(manifests: Sequence[Manifest]) -> str:
    """What to say of manifests without any job or pod: a kind that may be misspelt, else the kinds that they have."""
    from unisono.api.kinds import find
    from unisono.jobkinds.registry import JOB_KINDS

    kinds = ", ".join(sorted({manifest.kind for manifest in manifests}))
    text = f"There is nothing to run in these files, only {kinds}"
    runnable = ["Job", "Pod", *sorted({each.kind for each in JOB_KINDS} - {"Job"})]
    for manifest in manifests:
        meant = next(iter(get_close_matches(manifest.kind, runnable, 1)), "")
        if not meant or find(manifest.api_version, manifest.kind) is not None:
            continue
        told = f"{manifest.kind} of {manifest.api_version}"
        if manifest.kind != meant:
            return f"{text}: {manifest.where} has the kind {told}; is {meant} meant?"
        groups = {"Job": "batch.volcano.sh/v1alpha1 or batch/v1", "Pod": "v1"}
        known = groups.get(meant) or next(f"{each.group}/..." for each in JOB_KINDS if each.kind == meant)
        return f"{text}: {manifest.where} has the kind {told}; is its apiVersion {known}?"
    return f"{text}: use 'unisono apply' for those."


def target_kind(manifest: Manifest) -> Kind[Any]:
    """The kind of a workload.

    Raises:
        UnisonoError: the kind exists, but not in this version.

    """
    from unisono.api.kinds import find
    from unisono.errors import UnisonoError

    kind = find(manifest.api_version, manifest.kind)
    if kind is None:
        raise UnisonoError(f"{manifest.where}: there is no {manifest.kind} in version {manifest.api_version}.")
    return kind


def mark_working_directory(manifest: Manifest) -> None:
    """Let the manifest's pods start in its folder where a container names no workingDir.

    A file such as ``command: [python, train.py]`` then finds ``train.py`` beside it, as an image would hold it.
    """
    from unisono.sdk.submission import mark_folder

    mark_folder(manifest.value, manifest.folder)
