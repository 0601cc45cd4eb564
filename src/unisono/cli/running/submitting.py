"""Creates what ``unisono run`` was given, in place of an earlier run of the same name where that is wanted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unisono.errors import AlreadyExists, NotFound, UnisonoError

if TYPE_CHECKING:
    from unisono.cli.manifests import Manifest
    from unisono.cli.report import Reporter
    from unisono.cli.running.place import Place
    from unisono.kube.discovery import ResourceMap
    from unisono.kube.http import HttpClient
    from unisono.sdk.events import Target

_POLL_SECONDS = 0.1
# Pods get half a minute to end by themselves.
_GONE_SECONDS = 120.0
_MOST_NAMES = 1000

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

    """

    replace: bool = False
    ask: Ask | None = None
    numbered: Callable[[str], Manifest] | None = None
    folders: tuple[Path, ...] = ()


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
    from unisono.cli.workloads import is_workload
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
    from unisono.cli.prerequisites import missing_prerequisites

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
        from unisono.cli.workloads import target_kind
        from unisono.sdk.events import Target

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
        from unisono.cli.workloads import target_kind
        from unisono.errors import ApiError
        from unisono.sdk.observing import look

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
        from unisono.cli.workloads import mark_working_directory
        from unisono.sdk.sharing import is_read_only, share_folder

        mark_working_directory(manifest)
        own = manifest.metadata.get("namespace") or self.namespace
        if self.place.private:
            return
        for folder in dict.fromkeys((manifest.folder, *self.naming.folders)):
            if await share_folder(self.client, own, folder):
                self.report.line(f"namespace/{own}", f"its pods may read {folder} from now on")
        if not manifest.file and await is_read_only(self.client, own, manifest.folder):
            who = "its pods run as a user of the namespace, and not as root"
            self.report.line(
                f"namespace/{own}", f"{who}: they cannot write to {manifest.folder} (docs/local-runtime.md#users)"
            )


def _exists(manifest: Manifest) -> str:
    other = "name or a generateName" if manifest.file else "--name"
    return manifest.told(
        f"the {manifest.kind.lower()} {manifest.name} exists already: run with --replace to delete it, delete it "
        f"with 'unisono delete {_typed(manifest)}', or give this one another {other}."
    )


def _typed(manifest: Manifest) -> str:
    """``KIND/NAME`` as commands read it."""
    from unisono.api.kinds import JOBS, PODS
    from unisono.cli.workloads import target_kind

    kind = target_kind(manifest)
    return f"{manifest.kind.lower() if kind in (JOBS, PODS) else kind.resource}/{manifest.name}"
