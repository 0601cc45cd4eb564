"""The components' own accounts on a server that is named: the roles of an installation, and a token for each."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.e2e.load import new_namespace, remove
from unisono.api.kinds import find
from unisono.install.options import InstallOptions
from unisono.install.rights import access
from unisono.kube.http import HttpClient
from unisono.kube.transport import error_of

COMPONENTS = ("controllers", "agent", "scheduler")
_APPLY = "application/apply-patch+yaml"


class Accounts:
    """ServiceAccounts as ``unisono install`` makes them, in a namespace of their own.

    An administrator's client certificate costs the server a signature check with every request, and passes by the
    server's flow control: components that show one are not those of a real cluster.
    """

    def __init__(self, admin: HttpClient) -> None:
        self._admin = admin
        self._namespace = ""
        self._manifests: list[dict[str, Any]] = []

    async def make(self, folder: Path) -> dict[str, Path]:
        """Kubeconfig of each component, written into ``folder``."""
        self._namespace = await new_namespace(self._admin, "bench-system-")
        options = InstallOptions(namespace=self._namespace)
        self._manifests = [manifest for name in COMPONENTS for manifest in access(name, options)]
        for manifest in self._manifests:
            await self._call("PATCH", _path(manifest), manifest, _APPLY)
        found = {}
        for name in COMPONENTS:
            path = folder / f"{name}.kubeconfig"
            path.touch(mode=0o600)
            path.write_text(json.dumps(self._kubeconfig(await self._token(f"unisono-{name}"))))
            found[name] = path
        return found

    async def remove(self) -> None:
        """Take everything away again."""
        for manifest in self._manifests:
            await self._admin.request("DELETE", _path(manifest))
        if self._namespace:
            await remove(self._admin, self._namespace)

    async def _token(self, account: str) -> str:
        path = f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{account}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}}
        token: str = (await self._call("POST", path, body))["status"]["token"]
        return token

    def _kubeconfig(self, token: str) -> dict[str, Any]:
        config = self._admin.config
        cluster: dict[str, Any] = {"server": config.server, "insecure-skip-tls-verify": config.insecure}
        if config.ca is not None:
            cluster["certificate-authority-data"] = base64.b64encode(config.ca).decode()
        name = "bench"
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": {"token": token}}],
        }

    async def _call(self, method: str, path: str, body: Mapping[str, Any], content_type: str = "") -> dict[str, Any]:
        apply = content_type == _APPLY
        status, headers, data = await self._admin.request(
            method,
            path,
            body=msgspec.json.encode(body),
            params={"fieldManager": "bench", "force": "true"} if apply else None,
            content_type=content_type or "application/json",
        )
        if status >= 300:
            raise error_of(status, headers, data)
        found: dict[str, Any] = msgspec.json.decode(data)
        return found


def _path(manifest: Mapping[str, Any]) -> str:
    kind, meta = find(manifest["apiVersion"], manifest["kind"]), manifest["metadata"]
    if kind is None:
        raise ValueError(f"{manifest['kind']} of {manifest['apiVersion']} is no known kind")
    # Some kinds have several versions; the one in which it is written counts.
    written = replace(kind, version=manifest["apiVersion"].rpartition("/")[2])
    return f"{written.path(meta.get('namespace'))}/{meta['name']}"
