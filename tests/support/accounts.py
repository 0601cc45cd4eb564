"""Components as their own service accounts, with the roles that an installation makes, and what they asked for."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from unisono.api.kinds import find
from unisono.install.admission import NAME as HOOKS
from unisono.install.manifests import manifests
from unisono.install.workloads import InstallOptions
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import ClusterConfig
from unisono.kube.transport import Transport

ACCESS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
_VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update", "WATCH": "watch"}
_TRIES = 6000


@dataclass(frozen=True, order=True)
class Asked:
    """A request in the words of roles; ``resource`` has its subresource behind a slash."""

    verb: str
    group: str
    resource: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}.{self.group}" if self.group else f"{self.verb} {self.resource}"


def asked(method: str, path: str) -> Asked | None:
    """What a role must allow for the request; None for paths that are no resource."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, rest = "", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, rest = parts[1], parts[3:]
    else:
        return None
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        rest = rest[2:]
    resource = f"{rest[0]}/{rest[2]}" if len(rest) > 2 else rest[0]
    one = len(rest) > 1
    verb = {"GET": "get" if one else "list", "DELETE": "delete" if one else "deletecollection"}.get(method)
    return Asked(verb or _VERBS[method], group, resource)


@dataclass
class Requests:
    """Observer of transports: what was asked, and what of it was forbidden."""

    seen: Counter[Asked] = field(default_factory=Counter)
    forbidden: Counter[str] = field(default_factory=Counter)

    def observe(self, method: str, path: str, status: int, seconds: float | None) -> None:
        request = asked(method, path)
        if request is not None:
            self.seen[request] += 1
        if status == 403:
            self.forbidden[f"{method} {path}"] += 1

    def client(self, config: ClusterConfig) -> HttpClient:
        return HttpClient(config, transport=Transport(config, observer=self.observe))


def place(manifest: Mapping[str, Any]) -> str:
    """Path of the object on a server."""
    kind, meta = find(manifest["apiVersion"], manifest["kind"]), manifest["metadata"]
    assert kind is not None, manifest
    # The version in which it is written: some kinds have several.
    written = replace(kind, version=manifest["apiVersion"].rpartition("/")[2])
    return f"{written.path(meta.get('namespace'))}/{meta['name']}"


class Accounts:
    """The accounts of an installation in one namespace, which exists.

    Roles of the whole cluster have the namespace in their names, for installations of other tests have some, too; the
    webhook may change the configurations that are named ``hooks``.
    """

    def __init__(self, admin: HttpClient, namespace: str, hooks: str = HOOKS) -> None:
        self._admin, self.namespace = admin, namespace
        options = InstallOptions(namespace=namespace, simulate=1, crds=False, policies=False)
        self.manifests = [one for one in manifests(options) if one["kind"] in ACCESS]
        for one in self.manifests:
            if one["kind"].startswith("Cluster"):
                one["metadata"]["name"] = f"{namespace}-{one['metadata']['name']}"
            if one["kind"] == "ClusterRoleBinding":
                one["roleRef"] = one["roleRef"] | {"name": one["metadata"]["name"]}
            for rule in one.get("rules", ()):
                if rule.get("resourceNames") == [HOOKS]:
                    rule["resourceNames"] = [hooks]

    async def make(self) -> None:
        """Apply accounts, roles and bindings."""
        for manifest in self.manifests:
            status, answer = await self._send("PATCH", place(manifest), manifest)
            assert status in (200, 201), answer

    async def remove(self) -> None:
        for manifest in self.manifests:
            await self._send("DELETE", place(manifest))

    async def config(self, component: str, base: ClusterConfig) -> ClusterConfig:
        """``base`` as the component's account sees it, once its roles are in effect."""
        name = f"unisono-{component}"
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{name}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        status, answer = await self._send("POST", path, body)
        assert status == 201, answer
        token = answer["status"]["token"]
        await self._in_effect(name, _as(self._admin.config, token))
        return _as(base, token)

    async def _in_effect(self, name: str, config: ClusterConfig) -> None:
        """Wait: a server hears of roles and bindings by watches of its own."""
        names = (name, f"{self.namespace}-{name}")
        roles = [one for one in self.manifests if one["kind"].endswith("Role") and one["metadata"]["name"] in names]
        client = HttpClient(config)
        try:
            for role in roles:
                for _ in range(_TRIES):
                    if await _may(client, role["rules"][-1], role["metadata"].get("namespace")):
                        break
                    await asyncio.sleep(0.02)
                else:
                    raise AssertionError(f"{name} has no rights")
        finally:
            await client.close()

    async def _send(self, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        return await _send(self._admin, method, path, body)


def _as(config: ClusterConfig, token: str) -> ClusterConfig:
    return replace(config, token=token, client_certificate=None, client_key=None, token_file=None)


async def _may(client: HttpClient, rule: Mapping[str, Any], namespace: str | None) -> bool:
    resource, _, sub = rule["resources"][0].partition("/")
    attributes = {"verb": rule["verbs"][0], "group": rule["apiGroups"][0], "resource": resource, "subresource": sub}
    if rule.get("resourceNames"):
        attributes["name"] = rule["resourceNames"][0]
    attributes |= {"namespace": namespace} if namespace else {}
    api = "authorization.k8s.io/v1"
    review = {"apiVersion": api, "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": attributes}}
    status, answer = await _send(client, "POST", f"/apis/{api}/selfsubjectaccessreviews", review)
    assert status == 201, answer
    return bool(answer["status"]["allowed"])


async def _send(client: HttpClient, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
    apply = method == "PATCH"
    status, _, answer = await client.request(
        method,
        path,
        body=None if body is None else json.dumps(body).encode(),
        params={"fieldManager": "test", "force": "true"} if apply else {},
        content_type="application/apply-patch+yaml" if apply else "application/json",
    )
    return status, json.loads(answer) if answer.startswith(b"{") else {}
