"""What may be submitted: jobs of the builder, structs, mappings, YAML, files, programs; how it is created."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from unisono.api.annotations import WORKING_DIRECTORY
from unisono.api.base import Object
from unisono.api.decode import decode
from unisono.api.kind import Kind
from unisono.api.kinds import find
from unisono.api.yaml import expand_lists, load_all
from unisono.errors import ApiError, Invalid
from unisono.jobkinds.registry import JOB_KINDS
from unisono.kube.http import HttpClient
from unisono.kube.transport import error_of
from unisono.sdk.errors import BadWork
from unisono.sdk.jobs.builders import Job
from unisono.sdk.jobs.control import is_job
from unisono.sdk.jobs.program import Program, caller_surroundings, program_job

if TYPE_CHECKING:
    from unisono.api.core import Namespace
    from unisono.kube.client import Client


# What the pods of a control plane of root may do in the folder of a job that root submits.


async def share_folder(client: Client, namespace: str, folder: Path) -> bool:
    """Add a folder that only root can reach to those that pods of the namespace may read.

    Only an administrator of the control plane can do so; for others nothing happens, and a pod that needs the folder
    says what is missing.

    Args:
        client: a control plane of this machine.
        namespace: of the job.
        folder: in which the job's pods start.

    Returns:
        Whether the folder was added.
    """
    if os.geteuid() != 0:
        return False
    from unisono.agent.processes.users import (
        MOST_DIRECTORIES,
        closed_folder,
        directories,
        hidden,
        is_privileged,
    )
    from unisono.api.annotations import READABLE_DIRECTORIES, WRITABLE_DIRECTORIES
    from unisono.api.kinds import NAMESPACES

    if closed_folder(folder) is None or ":" in str(folder):
        return False
    try:
        namespace_object = await client.get(NAMESPACES, namespace)
        listed = directories(namespace_object)
        if any(_real(folder).is_relative_to(each) for each in directories(namespace_object, WRITABLE_DIRECTORIES)):
            return False
        # Without those that were removed, or can be reached by now.
        needed = {path for _, paths in hidden(listed) for path in paths}
        shared = [each for each in listed if each in needed]
        if is_privileged(namespace_object) or any(folder.is_relative_to(each) for each in shared):
            return False
        kept = [each for each in shared if not Path(each).is_relative_to(folder)]
        # Where there is no room for all, those that were added longest ago go.
        await _list_folders(
            client, namespace_object, READABLE_DIRECTORIES, [*kept[1 - MOST_DIRECTORIES :], str(folder)]
        )
    except ApiError:
        return False
    return True


async def _list_folders(client: Client, space: Namespace, annotation: str, folders: Sequence[str]) -> None:
    """Let an annotation of a namespace name these folders, where nobody changed it meanwhile."""
    from unisono.api.kinds import NAMESPACES

    changed = {"annotations": {annotation: ":".join(folders)}, "resourceVersion": space.metadata.resource_version}
    await client.patch(NAMESPACES, space.metadata.name, {"metadata": changed})


# Folders of the machine that no job gets, with all below them; and those that it does not get as a whole.
_SYSTEM = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr")
_WHOLE = ("/", "/home", "/media", "/mnt", "/opt", "/root", "/srv", "/var", "/var/lib")


async def share_writing(
    client: Client, namespace: str, folder: Path, data: str | os.PathLike[str] | None = None
) -> bool:
    """Let pods of a namespace write in root's folder with its owner's rights, while nobody else may make pods there.

    Args:
        client: a control plane of this machine.
        namespace: of the job.
        folder: in which the job's pods start.
        data: where the control plane keeps its own files; None for the default place.

    Returns:
        Whether the folder was added.
    """
    if os.geteuid() != 0 or _others_may_write(folder):
        return False
    from unisono.agent.processes.users import FIRST_UID, MOST_DIRECTORIES, directories, is_privileged, overlap
    from unisono.agent.shim.kernel import mapped
    from unisono.api.annotations import WRITABLE_DIRECTORIES
    from unisono.api.kinds import NAMESPACES
    from unisono.standalone.paths import DataDir

    real = _real(folder)
    if (
        ":" in str(real)
        or _is_the_machines(real)
        or overlap(real, DataDir.at(None).root if data is None else Path(data))
    ):
        return False
    try:
        space = await client.get(NAMESPACES, namespace)
        listed = _that_are_there(directories(space, WRITABLE_DIRECTORIES))
        if is_privileged(space) or any(real.is_relative_to(each) for each in listed):
            return False
        if await _others_make_pods(client, namespace):
            return False
        # Not every kernel and file system can.
        os.close(mapped(str(real), FIRST_UID, FIRST_UID))
        kept = [each for each in listed if not Path(each).is_relative_to(real)]
        await _list_folders(client, space, WRITABLE_DIRECTORIES, [*kept[1 - MOST_DIRECTORIES :], str(real)])
    except (ApiError, OSError):
        return False
    return True


def _that_are_there(folders: Sequence[str]) -> list[str]:
    return [each for each in folders if Path(each).is_dir()]


def _real(folder: Path) -> Path:
    """Where a folder is, links followed."""
    return folder.resolve()


def _is_the_machines(folder: Path) -> bool:
    """Whether a folder belongs to the machine, or holds what its users' shells read, and no project."""
    home = Path.home().resolve()
    return home.is_relative_to(folder) or str(folder) in _WHOLE or any(folder.is_relative_to(each) for each in _SYSTEM)


# Roles that every control plane gives to all users, and with which nobody makes pods.
_HARMLESS = frozenset(
    (
        "system:basic-user",
        "system:discovery",
        "system:monitoring",
        "system:public-info-viewer",
        "system:service-account-issuer-discovery",
        "unisono:history-reader",
        "unisono:queue-viewer",
    )
)


async def _others_make_pods(client: Client, namespace: str) -> bool:
    """Whether rights in the namespace were given to anybody who is no administrator of the control plane."""
    from unisono.api.kinds import CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS

    wide, own = await client.list(CLUSTER_ROLE_BINDINGS), await client.list(ROLE_BINDINGS, namespace)
    # Whom the role of administrators is given for this namespace only administers that, and not root's machine.
    given = [
        binding.role_ref for binding in wide.items if binding.subjects and binding.role_ref.name != "cluster-admin"
    ]
    given += [binding.role_ref for binding in own.items if binding.subjects]
    return any(role.kind != "ClusterRole" or role.name not in _HARMLESS for role in given)


async def is_read_only(client: Client, namespace: str, folder: Path) -> bool:
    """Whether the pods of root's control plane cannot write to a folder that root, who submits them, can.

    They run as a user of their namespace. Where this cannot be known, nothing is said.

    Args:
        client: a control plane of this machine.
        namespace: of the job.
        folder: in which the job's pods start.
    """
    if os.geteuid() != 0:
        return False
    from unisono.agent.processes.users import directories, is_privileged
    from unisono.api.annotations import WRITABLE_DIRECTORIES
    from unisono.api.kinds import NAMESPACES

    try:
        space = await client.get(NAMESPACES, namespace)
    except ApiError:
        return False
    real = _real(folder)
    given = any(real.is_relative_to(each) for each in directories(space, WRITABLE_DIRECTORIES))
    return not (given or is_privileged(space) or _others_may_write(folder))


def _others_may_write(folder: Path) -> bool:
    try:
        return bool(folder.stat().st_mode & stat.S_IWOTH)
    except OSError:
        return True


# Programs as jobs of the place where they run: processes of this machine, or containers of a cluster.


def job_of(program: Program, *, local: bool) -> Job:
    """The job of a program.

    Args:
        program: what to run.
        local: pods are processes of this machine: they get the caller's interpreter, variables and folder, unless the
            program names an image.

    Raises:
        BadWork: there is no such program here, or a cluster needs an image.
    """
    if program.image is None and not local:
        raise BadWork("a cluster runs the program in a container: name an image that holds it with --image (image=).")
    if program.image is None and program.command:
        return program_job(program, caller_surroundings(program.command[0]))
    return program_job(program)


def program_folders(work: object) -> tuple[Path, ...]:
    """Folders besides its own that the processes of a local program must be able to read; none of any other work."""
    if not isinstance(work, Program) or work.image is not None or not work.command:
        return ()
    return caller_surroundings(work.command[0]).folders


# What may be submitted: jobs of the builder, structs, mappings, YAML text and files; all become plain objects.

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
            manifests, folder = [job_of(work, local=local).manifest()], Path.cwd()
        case Job():
            manifests, folder = [work.manifest()], Path.cwd()
        case Object():
            manifests, folder = [msgspec.to_builtins(work)], Path.cwd()
        case Mapping():
            manifests, folder = [_plain(work)], Path.cwd()
        case str() | Path():
            manifests, folder = _read(work)
        case _:
            raise BadWork(f"a {type(work).__name__} is no job: give a Job, a mapping, YAML text or a path.")
    for each in manifests:
        for key in ("apiVersion", "kind"):
            if not isinstance(each, dict) or not isinstance(each.get(key), str):
                raise BadWork(f"the object has no {key}: add one, such as apiVersion: batch.volcano.sh/v1alpha1.")
        if not isinstance(each.setdefault("metadata", {}), dict):
            raise BadWork("metadata must be a mapping.")
    return manifests, folder


def split(found: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Objects that come first (queues, ConfigMaps, ...), and the one job.

    Raises:
        BadWork: there is no job, or more than one.
    """
    jobs = [each for each in found if is_job(each["apiVersion"], each["kind"])]
    if len(jobs) != 1:
        kinds = ", ".join(sorted({str(each["kind"]) for each in found})) or "nothing"
        kinds_of_jobs = ", ".join(dict.fromkeys(kind.kind for kind in JOB_KINDS))
        raise BadWork(f"submit takes exactly one job ({kinds_of_jobs}), and here are {len(jobs)} (kinds: {kinds}).")
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
    documents = [document.value for document in expand_lists(load_all(text, file=name)) if document.value is not None]
    if not documents:
        raise BadWork(f"{name} holds no object: write at least one, with apiVersion and kind.")
    return documents, folder


def _plain(value: Any) -> Any:
    """A copy that shares nothing with the caller's mapping."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


# Creates objects on a server, or brings them to what a manifest says.

T = TypeVar("T", bound=Object)


async def create_object(http: HttpClient, kind: Kind[T], value: dict[str, Any], namespace: str) -> T:
    """POST an object as given, so that the server sees, and refuses, fields that do not exist.

    Args:
        http: the server.
        kind: of the object.
        value: the object.
        namespace: where it goes if it names none.

    Raises:
        Invalid: it has a field that does not exist, or breaks a rule.
        ApiError: the server refuses it.
    """
    chosen = value["metadata"].setdefault("namespace", namespace)
    status, headers, body = await http.request(
        "POST",
        kind.path(chosen),
        body=msgspec.json.encode(value),
        params={"fieldManager": "unisono", "fieldValidation": "Strict"},
    )
    if status >= 300:
        error = error_of(status, headers, body)
        # Servers answer a field that does not exist as a bad request; for the caller the object is wrong either way.
        raise Invalid(error.message) if "strict decoding error" in error.message else error
    return decode(kind, msgspec.json.decode(body)).obj


async def apply_object(http: HttpClient, value: dict[str, Any], namespace: str) -> None:
    """Create an object of any known kind, or bring the live one to what ``value`` says (server-side apply).

    Raises:
        BadWork: the kind is not known, or the object has no name.
        ApiError: the server refuses it.
    """
    kind = kind_of(value)
    if kind is None:
        raise BadWork(f"{value['apiVersion']} {value['kind']} is not known here: create it with kubectl apply first.")
    name = value["metadata"].get("name")
    if not isinstance(name, str):
        raise BadWork(f"the {value['kind']} beside the job has no metadata.name: give it one.")
    chosen = value["metadata"].setdefault("namespace", namespace) if kind.namespaced else None
    await http.patch(kind, name, value, namespace=chosen, patch_type="apply")
