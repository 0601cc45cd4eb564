"""What ``unisono run`` submits: objects of files or the job of a command, here or to the members of a fleet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from unisono.api.annotations import FLEET
from unisono.api.keys import CONFIG_MAP_NAMESPACE, POD_QUEUE, QUEUE_NAME
from unisono.api.kinds import QUEUES
from unisono.errors import AlreadyExists, NotFound, UnisonoError

if TYPE_CHECKING:
    from unisono.api.kind import Kind
    from unisono.cli.manifests import Manifest
    from unisono.cli.running.place import Place
    from unisono.cli.running.report import Reporter
    from unisono.kube.discovery import ResourceMap
    from unisono.kube.http import HttpClient
    from unisono.sdk.follow.events import Target
    from unisono.sdk.jobs.program import Program

# What manifests for a cluster take for granted: namespaces and queues that they name and do not bring (pure).

# What every control plane has.
_NAMESPACES = frozenset({"default", "kube-system", "kube-public", "kube-node-lease", CONFIG_MAP_NAMESPACE})
_QUEUES = frozenset({"default", "root"})


def missing_prerequisites(manifests: Sequence[Manifest], namespace: str | None) -> list[dict[str, Any]]:
    """Namespaces, then queues, that a control plane of its own needs before these manifests can be created.

    Args:
        manifests: all that are about to be created.
        namespace: of objects that name none, where the user says so.
    """
    namespaces = dict.fromkeys(name for each in manifests if (name := each.metadata.get("namespace")))
    if namespace:
        namespaces[namespace] = None
    queues = dict.fromkeys(name for each in manifests for name in _queues(each.value))
    brought = {(each.kind, each.name) for each in manifests}
    required = [("v1", "Namespace", name) for name in namespaces if name not in _NAMESPACES]
    required += [(QUEUES.api_version, QUEUES.kind, name) for name in queues if name not in _QUEUES]
    return [
        {"apiVersion": version, "kind": kind, "metadata": {"name": name}}
        for version, kind, name in required
        if isinstance(name, str) and (kind, name) not in brought
    ]


def _queues(value: Any) -> Iterator[str]:
    """Queues that an object names: in ``spec.queue``, a scheduling policy, or the annotations of its pods."""
    if isinstance(value, list):
        for item in value:
            yield from _queues(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in ("queue", QUEUE_NAME, POD_QUEUE):
                if isinstance(item, str) and item:
                    yield item
            elif key not in ("containers", "initContainers", "data", "stringData"):
                yield from _queues(item)


# Which manifests ``unisono run`` follows to their end, and what it adds so that they run on this machine.


def is_workload(manifest: Manifest) -> bool:
    """The manifest is a job or a pod, which runs and ends."""
    from unisono.sdk.jobs.control import is_job

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
        description = f"{manifest.kind} of {manifest.api_version}"
        if manifest.kind != meant:
            return f"{text}: {manifest.where} has the kind {description}; is {meant} meant?"
        groups = {"Job": "batch.volcano.sh/v1alpha1 or batch/v1", "Pod": "v1"}
        expected = groups.get(meant) or next(f"{each.group}/..." for each in JOB_KINDS if each.kind == meant)
        return f"{text}: {manifest.where} has the kind {description}; is its apiVersion {expected}?"
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
    from unisono.sdk.jobs.submission import mark_folder

    mark_folder(manifest.value, manifest.folder)


# What ``unisono run`` submits: the objects of files, or the job of a command.


def of_files(files: Sequence[str]) -> list[Manifest]:
    """The objects of the files, with at least one job or pod among them.

    Raises:
        UnisonoError: there is none, or a file is a program and no manifest.
    """
    from unisono.cli.manifests import read

    _check_for_programs(files)
    manifests = read(files)
    if not any(is_workload(manifest) for manifest in manifests):
        raise UnisonoError(nothing_to_run(manifests))
    return manifests


def of_program(program: Program, *, local: bool) -> Manifest:
    """The job of a command.

    Args:
        program: the command.
        local: its pods are processes of this machine, with the caller's interpreter and folder.

    Raises:
        BadWork: there is no such program, or it needs an image.
    """
    from unisono.cli.manifests import Manifest
    from unisono.sdk.jobs.submission import job_of

    return Manifest(job_of(program, local=local).manifest(), "", 0, Path.cwd())


def _check_for_programs(files: Sequence[str]) -> None:
    """A forgotten ``--`` is an error, before a script is read as YAML."""
    import shutil

    first = Path(files[0])
    words = " ".join(files)
    if first.suffix in (".py", ".sh"):
        run = "python" if first.suffix == ".py" else "bash"
        raise click.UsageError(f"{first} is a program and no manifest; run it with: unisono run -- {run} {words}")
    if not first.exists() and "/" not in files[0] and shutil.which(files[0]):
        raise click.UsageError(f"there is no file {first}; to run the program {first}: unisono run -- {words}")


# Jobs that ``unisono run --fleet`` sends to the members of a fleet: their mark, and their logs.

_MOST_PODS: Final = 64


def marked(manifests: Sequence[Manifest], fleet: str) -> list[Manifest]:
    """The manifests with the jobs among them kept to the members of a Fleet."""
    return [
        replace(each, value=_marked(each.value, fleet)) if fleet and is_workload(each) else each for each in manifests
    ]


def _marked(value: dict[str, Any], fleet: str) -> dict[str, Any]:
    meta = value.get("metadata") or {}
    return {**value, "metadata": {**meta, "annotations": {**(meta.get("annotations") or {}), FLEET: fleet}}}


async def copy_logs(client: HttpClient, targets: Iterable[Target], report: Reporter) -> None:
    """Print what the pods of the jobs have logged in their members, pod after pod, as the hub reads it."""
    from unisono.errors import ApiError
    from unisono.sdk.follow.log_lines import lines, short_name

    for target in targets:
        for pod, container in await _containers(client, target):
            prefix = short_name(pod, target.name)
            try:
                async for text in lines(client, target.namespace, pod, {"container": container}):
                    report.log(prefix, text)
            except ApiError as error:
                report.line(f"pod/{pod}", f"its log cannot be read: {error}")


async def _containers(client: HttpClient, target: Target) -> list[tuple[str, str]]:
    """Pods of a job and their first containers, as its controller in the member calls them."""
    import time

    from unisono.errors import NotFound
    from unisono.fleet.jobs.work import KINDS, work_of

    if target.kind not in KINDS:
        return []
    try:
        job = await client.get(target.kind, target.name, target.namespace)
    except NotFound:
        return []
    work = work_of(target.kind, job, time.time())
    pods = work.pods[:_MOST_PODS] if work is not None else ()
    return [(pod.metadata.name, pod.spec.containers[0].name) for pod in pods if pod.spec.containers]


# Creates what ``unisono run`` was given, in place of an earlier run of the same name where that is wanted.

_POLL_SECONDS = 0.1
# Pods get half a minute to end by themselves.
_GONE_SECONDS = 120.0
_MOST_NAMES = 1000
_USERS = "docs/local-runtime.md#users"

Ask = Callable[[str], bool]
"""Asks the user whether to replace; answers False where there is no terminal."""


@dataclass(frozen=True, slots=True)
class Naming:
    """What happens where a job of the same name exists.

    Attributes:
        replace: it is deleted first.
        ask: asks whether it should be.
        numbered: the name is not the user's own: the next free one is taken, ``train-2``.
        folders: further folders that the pods must be able to read.
        heard: what was told of the namespace already, and is not told again.
    """

    replace: bool = False
    ask: Ask | None = None
    numbered: Callable[[str], Manifest] | None = None
    folders: tuple[Path, ...] = ()
    heard: set[str] = field(default_factory=set)


async def submit(
    client: HttpClient, place: Place, manifests: Sequence[Manifest], report: Reporter, naming: Naming
) -> list[Target]:
    """Create everything; answers the jobs and pods to follow.

    Raises:
        UnisonoError: a job of the name exists, and stays.
        ApiError: the server refuses an object.
    """
    from unisono.cli import applying
    from unisono.cli.connection import namespace_of
    from unisono.kube.discovery import discover

    resources = await discover(client)
    namespace = namespace_of(place.where)
    submission = _Submission(client, place, resources, namespace, report, naming)
    if place.private:
        for extra in _prerequisites(manifests, place.where.namespace):
            result = await applying.create(client, resources, extra, namespace)
            report.line(f"{result.resource.singular}/{result.name}", "created, because the files name it")
    targets = []
    for manifest in manifests:
        if is_workload(manifest):
            targets.append(await submission.workload(manifest))
        else:
            await submission.other(manifest)
    return targets


def _prerequisites(manifests: Sequence[Manifest], namespace: str | None) -> list[Manifest]:
    from unisono.cli.manifests import Manifest

    return [Manifest(value, manifests[0].file, 1, Path()) for value in missing_prerequisites(manifests, namespace)]


@dataclass(frozen=True, slots=True)
class _Submission:
    client: HttpClient
    place: Place
    resources: ResourceMap
    namespace: str
    report: Reporter
    naming: Naming

    async def other(self, manifest: Manifest) -> None:
        """Apply a queue, a ConfigMap or the like."""
        from unisono.cli import applying

        if self.place.local and manifest.kind == "JobTemplate":
            await self._local_folders(manifest)
        result = await applying.apply(self.client, self.resources, manifest, self.namespace)
        self.report.line(f"{result.resource.singular}/{result.name}", result.action)

    async def workload(self, manifest: Manifest) -> Target:
        """Create a job or a pod."""
        from unisono.api.decode import decode
        from unisono.cli import applying
        from unisono.sdk.follow.events import Target

        kind = target_kind(manifest)
        if self.place.local:
            await self._local_folders(manifest)
        if self.naming.replace:
            await self._delete(manifest)
        for number in range(2, _MOST_NAMES):
            try:
                result = await applying.create(self.client, self.resources, manifest, self.namespace)
                break
            except AlreadyExists:
                manifest = await self._other_name_or_room(manifest, number)
        else:
            raise UnisonoError(f"{_MOST_NAMES} jobs are called {manifest.name} already: give this one a --name.")
        created = decode(kind, result.object).obj
        return Target(kind, created.metadata.namespace or self.namespace, result.name, created)

    async def _other_name_or_room(self, manifest: Manifest, number: int) -> Manifest:
        """The manifest to try next.

        Raises:
            UnisonoError: the job that exists stays.
        """
        if self.naming.numbered is not None:
            base = manifest.name if number == 2 else manifest.name.rpartition("-")[0]
            return self.naming.numbered(f"{base}-{number}")
        question = f"The {manifest.kind.lower()} {manifest.name} exists already ({await self._state(manifest)})."
        if self.naming.ask is None:
            raise UnisonoError(_exists(manifest))
        if not self.naming.ask(f"{question} Delete it and run this one?"):
            raise UnisonoError(f"nothing was run; {_typed(manifest)} is as it was.")
        await self._delete(manifest)
        return manifest

    async def _state(self, manifest: Manifest) -> str:
        from unisono.errors import ApiError
        from unisono.sdk.state.observing import look

        try:
            namespace = manifest.metadata.get("namespace") or self.namespace
            seen = await look(self.client, target_kind(manifest), namespace, manifest.name)
        except ApiError:
            return "its state cannot be read"
        return seen.view.phase

    async def _delete(self, manifest: Manifest) -> None:
        """Delete the object of that name with its pods, and wait until they are gone: their ports are needed again."""
        from unisono.kube.discovery import request_json

        resource = self.resources.of(manifest.api_version, manifest.kind, manifest.where)
        path = resource.path(manifest.metadata.get("namespace") or self.namespace, manifest.name)
        body: dict[str, Any] = {"propagationPolicy": "Foreground"}
        try:
            await request_json(self.client, "DELETE", path, body=body)
            self.report.line(f"{resource.singular}/{manifest.name}", "deleting the earlier run")
            async with asyncio.timeout(_GONE_SECONDS):
                while True:
                    await request_json(self.client, "GET", path)
                    await asyncio.sleep(_POLL_SECONDS)
        except NotFound:
            return
        except TimeoutError:
            raise UnisonoError(
                f"The earlier {manifest.kind.lower()} {manifest.name} is being deleted, but is not gone after "
                f"{_GONE_SECONDS:g} s: see 'unisono describe {resource.singular}/{manifest.name}'."
            ) from None

    async def _local_folders(self, manifest: Manifest) -> None:
        """Let pods start in the manifest's folder, and read what they need although only root may enter the way."""
        from unisono.sdk.jobs.submission import is_read_only, share_folder, share_writing
        from unisono.standalone.paths import DataDir

        mark_working_directory(manifest)
        own = manifest.metadata.get("namespace") or self.namespace
        if self.place.private:
            return
        data = DataDir.at(self.place.where.data_dir).root
        # A command is root's own, and works in root's folder; what a manifest asks for may be anybody's.
        if not manifest.file and await share_writing(self.client, own, manifest.folder, data):
            self._tell(own, f"its pods may write in {manifest.folder} from now on, as its owner ({_USERS})")
        for folder in dict.fromkeys((manifest.folder, *self.naming.folders)):
            if await share_folder(self.client, own, folder):
                self._tell(own, f"its pods may read {folder} from now on")
        if not manifest.file and await is_read_only(self.client, own, manifest.folder):
            who = "its pods run as a user of the namespace, and not as root"
            self._tell(own, f"{who}: they cannot write to {manifest.folder} ({_USERS})")

    def _tell(self, namespace: str, text: str) -> None:
        """One line of a namespace, once for all elements of an array."""
        if text not in self.naming.heard:
            self.naming.heard.add(text)
            self.report.line(f"namespace/{namespace}", text)


def _exists(manifest: Manifest) -> str:
    other = "name or a generateName" if manifest.file else "--name"
    return manifest.told(
        f"the {manifest.kind.lower()} {manifest.name} exists already: run with --replace to delete it, delete it "
        f"with 'unisono delete {_typed(manifest)}', or give this one another {other}."
    )


def _typed(manifest: Manifest) -> str:
    """``KIND/NAME`` as commands read it."""
    from unisono.api.kinds import JOBS, PODS

    kind = target_kind(manifest)
    return f"{manifest.kind.lower() if kind in (JOBS, PODS) else kind.resource}/{manifest.name}"
