"""What may be submitted: jobs of the builder, structs, mappings, YAML text and files; all become plain objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from unisono.api.annotations import WORKING_DIRECTORY
from unisono.api.base import Object
from unisono.api.kind import Kind
from unisono.api.kinds import find
from unisono.api.yaml import expand_lists, load_all
from unisono.jobkinds.registry import JOB_KINDS
from unisono.sdk.builders import Job
from unisono.sdk.errors import BadWork
from unisono.sdk.job_kinds import is_job
from unisono.sdk.program import Program
from unisono.sdk.program_submission import job_of

Work = Job | Program | Object | Mapping[str, Any] | str | Path
"""A job: of the builder, a program with its arguments, a struct of ``unisono.api``, a mapping, YAML text (several
lines), or the path of a file."""


def objects(work: Work, *, local: bool = True) -> tuple[list[dict[str, Any]], Path]:
    """All objects of ``work``, and the folder in which its processes should start.

    Args:
        work: what was given.
        local: pods are processes of this machine.

    Raises:
        BadWork: there is no object, or one lacks ``apiVersion`` or ``kind``.
        ConfigError: the text is no YAML.

    """
    match work:
        case Program():
            found, folder = [job_of(work, local=local).manifest()], Path.cwd()
        case Job():
            found, folder = [work.manifest()], Path.cwd()
        case Object():
            found, folder = [msgspec.to_builtins(work)], Path.cwd()
        case Mapping():
            found, folder = [_plain(work)], Path.cwd()
        case str() | Path():
            found, folder = _read(work)
        case _:
            raise BadWork(f"a {type(work).__name__} is no job: give a Job, a mapping, YAML text or a path.")
    for each in found:
        for key in ("apiVersion", "kind"):
            if not isinstance(each, dict) or not isinstance(each.get(key), str):
                raise BadWork(f"the object has no {key}: add one, such as apiVersion: batch.volcano.sh/v1alpha1.")
        if not isinstance(each.setdefault("metadata", {}), dict):
            raise BadWork("metadata must be a mapping.")
    return found, folder


def split(found: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Objects that come first (queues, ConfigMaps, ...), and the one job.

    Raises:
        BadWork: there is no job, or more than one.

    """
    jobs = [each for each in found if is_job(each["apiVersion"], each["kind"])]
    if len(jobs) != 1:
        kinds = ", ".join(sorted({str(each["kind"]) for each in found})) or "nothing"
        known = ", ".join(dict.fromkeys(kind.kind for kind in JOB_KINDS))
        raise BadWork(f"submit takes exactly one job ({known}), and here are {len(jobs)} (kinds: {kinds}).")
    return [each for each in found if each is not jobs[0]], jobs[0]


def kind_of(value: Mapping[str, Any]) -> Kind[Any] | None:
    """The kind of an object in the version that it names; None where it is not known here."""
    kind = find(value["apiVersion"], value["kind"])
    if kind is None or kind.api_version == value["apiVersion"]:
        return kind
    return replace(kind, version=str(value["apiVersion"]).rpartition("/")[2])


def mark_folder(job: dict[str, Any], folder: Path) -> None:
    """Let pods whose containers name no ``workingDir`` start in ``folder`` (on nodes that run pods as processes)."""
    if job.get("kind") == "Pod":
        _annotate(job, str(folder))
    _walk(job.get("spec"), str(folder))


def _walk(value: Any, folder: str) -> None:
    """Mark every pod template below."""
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


def _read(work: str | Path) -> tuple[list[dict[str, Any]], Path]:
    if isinstance(work, str) and "\n" in work:
        text, name, folder = work, "text", Path.cwd()
    else:
        path = Path(work).expanduser()
        try:
            text, name, folder = path.read_text(encoding="utf-8"), str(path), path.absolute().parent
        except (OSError, UnicodeDecodeError) as error:
            raise BadWork(f"{path} cannot be read: {error}.") from None
    found = [document.value for document in expand_lists(load_all(text, file=name)) if document.value is not None]
    if not found:
        raise BadWork(f"{name} holds no object: write at least one, with apiVersion and kind.")
    return found, folder


def _plain(value: Any) -> Any:
    """A copy that shares nothing with the caller's mapping."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
