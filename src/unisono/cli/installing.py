"""Bring the manifests of an installation to a cluster, by server-side apply and in order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unisono.errors import ApiError, Invalid, NotFound, Unavailable, UnisonoError
from unisono.kube.discovery import Resource, ResourceMap, UnknownKind, discover, request_json

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient

MANAGER = "unisono-install"
_APPLY = "application/apply-patch+yaml"
# What an API server says of a webhook that it cannot ask.
_SILENT = "failed calling webhook"
_TIMEOUT = 504
# A definition is served within a second or two of its creation.
_TRIES, _PAUSE = 60, 0.5
# Waits before a manifest is applied again that a busy server did not get through with.
_PAUSES = (1.0, 2.0, 4.0, 8.0)


class NotServed(UnisonoError):
    """The cluster does not serve a definition that was applied."""


@dataclass(frozen=True, slots=True)
class Step:
    """What became of one manifest; ``note`` says why it was not looked at."""

    title: str
    action: str
    note: str = ""

    @property
    def line(self) -> str:
        """``deployment.apps/unisono-scheduler applied``."""
        return f"{self.title} {self.action}" + (f" ({self.note})" if self.note else "")


async def install(client: HttpClient, manifests: Sequence[dict[str, Any]], *, dry_run: bool) -> AsyncIterator[Step]:
    """Apply the manifests one after the other.

    With ``dry_run`` the server checks and stores nothing; what needs a kind or a namespace that an earlier manifest
    would have made is told as not checked.

    Raises:
        ApiError: the server refuses a manifest; what was applied before it stays.
        UnknownKind: the server does not serve a kind.
        NotServed: definitions were applied, and the server does not serve them.

    """
    resources = await discover(client)
    made: set[str] = set()
    defined: list[tuple[str, str]] = []
    for manifest in manifests:
        if defined and manifest["kind"] != "CustomResourceDefinition":
            if not dry_run:
                resources = await _served(client, defined)
            defined = []
        name, meta = title(manifest), manifest["metadata"]
        try:
            resource = resources.of(manifest["apiVersion"], manifest["kind"])
            if manifest["kind"] == "Queue" and await _exists(client, resource, meta["name"]):
                # Its weight and limits are the users' to set, and those of an earlier scheduler stay.
                yield Step(name, "kept", "as it is")
                continue
            await _apply(client, resource, manifest, dry_run=dry_run)
        except (UnknownKind, NotFound) as error:
            if not dry_run or not _expected(manifest, error, made):
                raise
            yield Step(name, "not checked", "needs what this installation makes")
            continue
        except ApiError as error:
            if manifest["kind"] == "Queue" and _SILENT in error.message:
                # Of an earlier installation, which this one mends; the controllers make queues that are missing.
                yield Step(name, "not applied", "the webhook does not answer; install again when its pods are ready")
                continue
            error.message = f"{name}: {error.message}"
            raise
        if manifest["kind"] == "CustomResourceDefinition":
            spec = manifest["spec"]
            made.add(f"{spec['group']}/{spec['names']['kind']}")
            defined += [(f"{spec['group']}/{version['name']}", spec["names"]["kind"]) for version in spec["versions"]]
        elif manifest["kind"] == "Namespace":
            made.add(meta["name"])
        yield Step(name, "applied (server dry run)" if dry_run else "applied")


def title(manifest: dict[str, Any]) -> str:
    """``deployment.apps/unisono-scheduler``."""
    group = manifest["apiVersion"].rpartition("/")[0]
    kind = manifest["kind"].lower()
    return f"{kind}.{group}/{manifest['metadata']['name']}" if group else f"{kind}/{manifest['metadata']['name']}"


async def _exists(client: HttpClient, resource: Resource, name: str) -> bool:
    try:
        await request_json(client, "GET", resource.path(None, name))
    except NotFound:
        return False
    return True


async def _apply(client: HttpClient, resource: Resource, manifest: dict[str, Any], *, dry_run: bool) -> None:
    from asyncio import sleep

    meta = manifest["metadata"]
    params = {"fieldManager": MANAGER, "force": "true", "fieldValidation": "Strict"}
    if dry_run:
        params["dryRun"] = "All"
    path = resource.path(meta.get("namespace"), meta["name"])
    for pause in (*_PAUSES, None):
        try:
            await request_json(client, "PATCH", path, body=manifest, params=params, content_type=_APPLY)
            return
        except Unavailable as error:
            # Large definitions take a busy server longer than it gives itself; to apply once more changes nothing.
            if pause is None or not _ran_out_of_time(error):
                raise
            await sleep(pause)


def _ran_out_of_time(error: Unavailable) -> bool:
    return error.code == _TIMEOUT or isinstance(error.__cause__, TimeoutError)


def _expected(manifest: dict[str, Any], error: Exception, made: set[str]) -> bool:
    if isinstance(error, UnknownKind):
        return f"{manifest['apiVersion'].rpartition('/')[0]}/{manifest['kind']}" in made
    return manifest["metadata"].get("namespace") in made and not isinstance(error, Invalid)


async def _served(client: HttpClient, wanted: Sequence[tuple[str, str]]) -> ResourceMap:
    from asyncio import sleep

    missing = ""
    for _ in range(_TRIES):
        found = await discover(client)
        try:
            for api_version, kind in wanted:
                found.of(api_version, kind)
            return found
        except UnknownKind as error:
            missing = str(error)
        await sleep(_PAUSE)
    raise NotServed(f"The definitions were applied, and the server does not serve them: {missing}")
