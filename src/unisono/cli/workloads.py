"""Which manifests ``unisono run`` follows to their end, and what it adds so that they run on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unisono.api.annotations import WORKING_DIRECTORY

if TYPE_CHECKING:
    from unisono.cli.manifests import Manifest


def is_workload(manifest: Manifest) -> bool:
    """The manifest is a job or a pod, which runs and ends."""
    group = manifest.api_version.rpartition("/")[0]
    return (group, manifest.kind) in {("batch.volcano.sh", "Job"), ("", "Pod")}


def mark_working_directory(manifest: Manifest) -> None:
    """Let the manifest's pods start in its folder where a container names no workingDir.

    A file such as ``command: [python, train.py]`` then finds ``train.py`` beside it, as an image would hold it.
    """
    folder = str(manifest.folder)
    if manifest.kind == "Pod":
        _annotate(manifest.value, folder)
    _walk(manifest.value.get("spec"), folder)


def _walk(value: Any, folder: str) -> None:
    if isinstance(value, list):
        for item in value:
            _walk(item, folder)
    elif isinstance(value, dict):
        template = value.get("template")
        if isinstance(template, dict) and isinstance(template.get("spec"), dict) and "containers" in template["spec"]:
            _annotate(template, folder)
        for item in value.values():
            _walk(item, folder)


def _annotate(pod: dict[str, Any], folder: str) -> None:
    metadata = pod.get("metadata")
    if not isinstance(metadata, dict):
        metadata = pod["metadata"] = {}
    annotations = metadata.get("annotations")
    if not isinstance(annotations, dict):
        annotations = metadata["annotations"] = {}
    annotations.setdefault(WORKING_DIRECTORY, folder)
