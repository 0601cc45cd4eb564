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
from unisono.install.admission import NAME as CONFIGURATION
from unisono.install.rights import access
from unisono.install.workloads import InstallOptions
from unisono.kube.http import HttpClient
from unisono.kube.transport import error_of

COMPONENTS = ("controllers", "agent", "scheduler", "webhook")
_POLICIES = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
_APPLY = "application/apply-patch+yaml"


class Accounts:
    """ServiceAccounts as ``unisono install`` makes them, in a namespace of their own.

    An administrator's client certificate costs the server a signature check with every request, and passes by the
    server's flow control: components that show one are not those of a real cluster.
    """

    def __init__(self, admin: HttpClient) -> None:
        self.admin = admin
        self.namespace = ""
        """Of the accounts, and the beginning of the names of all that is in no namespace."""
        self._manifests: list[dict[str, Any]] = []

    async def make(self, folder: Path) -> dict[str, Path]:
        """Kubeconfig of each component, written into ``folder``."""
        self.namespace = await new_namespace(self.admin, "bench-system-")
        options = InstallOptions(namespace=self.namespace)
        self._manifests = [manifest for name in COMPONENTS for manifest in access(name, options)]
        for manifest in self._manifests:
            _rename(manifest, self.namespace)
        for manifest in self._manifests:
            await self.apply(manifest)
        found = {}
        for name in COMPONENTS:
            path = folder / f"{name}.kubeconfig"
            path.touch(mode=0o600)
            path.write_text(json.dumps(self._kubeconfig(await self._token(f"unisono-{name}"))))
            found[name] = path
        return found

    async def apply(self, manifest: dict[str, Any]) -> None:
        """Apply one more object, which goes with the others."""
        if manifest not in self._manifests:
            self._manifests.append(manifest)
        await self._call("PATCH", path_of(manifest), manifest, _APPLY)

    async def remove(self) -> None:
        """Take everything away again."""
        # What checks requests goes first, or it would refuse what follows.
        for manifest in reversed(self._manifests):
            await self.admin.request("DELETE", path_of(manifest))
        if self.namespace:
            await remove(self.admin, self.namespace)

    async def _token(self, account: str) -> str:
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{account}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}}
        token: str = (await self._call("POST", path, body))["status"]["token"]
        return token

    def _kubeconfig(self, token: str) -> dict[str, Any]:
        config = self.admin.config
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
        status, headers, data = await self.admin.request(
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


def _rename(manifest: dict[str, Any], prefix: str) -> None:
    """Give roles and bindings names of their own: those of an installation on the same cluster are not touched."""
    if manifest["kind"] == "ServiceAccount":
        return
    manifest["metadata"]["name"] = f"{prefix}-{manifest['metadata']['name']}"
    if "roleRef" in manifest:
        manifest["roleRef"] = manifest["roleRef"] | {"name": f"{prefix}-{manifest['roleRef']['name']}"}
    for rule in manifest.get("rules", ()):
        if rule.get("resourceNames") == [CONFIGURATION]:
            rule["resourceNames"] = [prefix]


def path_of(manifest: Mapping[str, Any]) -> str:
    """Where the object is on a server."""
    meta = manifest["metadata"]
    if manifest["kind"] in _POLICIES:
        plural = (
            "validatingadmissionpolicies"
            if manifest["kind"].endswith("Policy")
            else "validatingadmissionpolicybindings"
        )
        return f"/apis/{manifest['apiVersion']}/{plural}/{meta['name']}"
    kind = find(manifest["apiVersion"], manifest["kind"])
    if kind is None:
        raise ValueError(f"{manifest['kind']} of {manifest['apiVersion']} is no known kind")
    # Some kinds have several versions; the one in which it is written counts.
    written = replace(kind, version=manifest["apiVersion"].rpartition("/")[2])
    return f"{written.path(meta.get('namespace'))}/{meta['name']}"
