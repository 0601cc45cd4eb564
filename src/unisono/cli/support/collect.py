"""Reads what a report needs: objects page by page, logs, metrics and the configuration of one control plane."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unisono import __version__
from unisono.api import kinds as k
from unisono.api.admission_registration import WEBHOOK_KINDS
from unisono.api.keys import APP_PART_OF
from unisono.api.workload_kinds import DEPLOYMENTS
from unisono.cli.support.redaction import Redaction, lines_of
from unisono.errors import ApiError
from unisono.kube.discovery import request_json

if TYPE_CHECKING:
    from unisono.api.kind import Kind
    from unisono.kube.http import HttpClient

# Never Secrets, nor ConfigMaps of users.
KINDS: tuple[Kind[Any], ...] = (
    k.NODES,
    k.PODS,
    *k.CUSTOM_KINDS,
    k.PRIORITY_CLASSES,
    k.RESOURCE_QUOTAS,
    k.LIMIT_RANGES,
    k.POD_DISRUPTION_BUDGETS,
    k.PERSISTENT_VOLUME_CLAIMS,
    k.RESOURCE_CLAIMS,
    k.LEASES,
    k.EVENTS,
    k.CUSTOM_RESOURCE_DEFINITIONS,
    *WEBHOOK_KINDS,
)
CONFIG = "unisono-scheduler"
_PAGE = 500
_TAIL_LINES = 20_000
_TAIL_BYTES = 8 * 1024 * 1024


class Collector:
    """One bundle in the making; what cannot be read is told in ``problems`` and leaves the rest as it is."""

    def __init__(self, client: HttpClient, namespace: str, redaction: Redaction) -> None:
        self._client, self._namespace, self._redaction = client, namespace, redaction
        self.problems: list[str] = []

    async def files(self, home: Path | None) -> AsyncIterator[tuple[str, str]]:
        """Names and texts, not yet scrubbed: objects first, since they tell what is to be hidden elsewhere.

        Args:
            home: data directory of a control plane of this machine, whose log is there; None for a cluster.

        """
        yield "about.json", json.dumps(await self._about(), indent=2) + "\n"
        for kind in KINDS:
            text = await self._objects(kind)
            if text:
                yield f"objects/{kind.plural}{'.' + kind.group if kind.group else ''}.jsonl", text
        async for name, text in self._components():
            yield name, text
        if home is not None:
            for name, text in _logs(home):
                yield name, text
            yield "metrics/control-plane.txt", await self._text("/metrics")

    async def _about(self) -> dict[str, Any]:
        try:
            server = await request_json(self._client, "GET", "/version")
        except ApiError as error:
            server = {"error": error.message}
        return {
            "unisono": __version__,
            "python": sys.version,
            "platform": platform.platform(),
            "server": server,
            "namespace": self._namespace,
        }

    async def _objects(self, kind: Kind[Any]) -> str:
        """All objects of a kind, redacted; empty where the server does not serve it."""
        made: list[str] = []
        params = {"limit": str(_PAGE)}
        while True:
            try:
                page = await request_json(self._client, "GET", kind.path(), params=params)
            except ApiError as error:
                if error.code != 404:
                    self.problems.append(f"{kind.resource}: {error.message}")
                return "".join(made)
            made.append(lines_of(self._redaction, page.get("items") or ()))
            params["continue"] = (page.get("metadata") or {}).get("continue") or ""
            if not params["continue"]:
                return "".join(made)

    async def _components(self) -> AsyncIterator[tuple[str, str]]:
        """Deployments, configuration, logs and metrics of an installation; nothing where there is none."""
        for kind in (DEPLOYMENTS, k.CONFIG_MAPS, k.PODS):
            path = kind.path(self._namespace)
            chosen = {"labelSelector": f"{APP_PART_OF}=unisono"}
            try:
                items = (await request_json(self._client, "GET", path, params=chosen)).get("items") or []
            except ApiError as error:
                if error.code != 404:
                    self.problems.append(f"{kind.resource} of {self._namespace}: {error.message}")
                continue
            if kind is DEPLOYMENTS and items:
                yield "objects/deployments.apps.jsonl", lines_of(self._redaction, items)
            for item in items:
                name = item["metadata"]["name"]
                if kind is k.CONFIG_MAPS and name == CONFIG:
                    for file, text in (item.get("data") or {}).items():
                        yield f"configuration/{file}", text
                elif kind is k.PODS:
                    async for file, text in self._pod(path, item):
                        yield file, text

    async def _pod(self, path: str, pod: dict[str, Any]) -> AsyncIterator[tuple[str, str]]:
        name = pod["metadata"]["name"]
        for container in (pod.get("spec") or {}).get("containers") or ():
            for past in ("false", "true"):
                params = {"container": container["name"], "tailLines": str(_TAIL_LINES), "previous": past}
                if text := await self._text(f"{path}/{name}/log", params, quiet=past == "true"):
                    yield f"logs/{name}{'.previous' if past == 'true' else ''}.log", text
            for port in container.get("ports") or ():
                if port.get("name") == "metrics":
                    yield (
                        f"metrics/{name}.txt",
                        await self._text(f"{path}/{name}:{port['containerPort']}/proxy/metrics"),
                    )

    async def _text(self, path: str, params: dict[str, str] | None = None, *, quiet: bool = False) -> str:
        status, _, body = await self._client.request("GET", path, params=params or {}, accept="*/*")
        if status >= 400:
            if not quiet:
                self.problems.append(f"{path}: HTTP {status}")
            return ""
        return body.decode(errors="replace")


def _logs(home: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(home.glob("unisono.log*")):
        yield f"logs/{path.name}", _tail(path)


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL_BYTES))
        return file.read().decode(errors="replace")
