"""An embedded API server with a dashboard before it, and a client that asks it as a browser does."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from unisono.api.documents import apply_merge_patch
from unisono.api.kinds import ALL_KINDS
from unisono.apiserver.backend import Backend
from unisono.apiserver.server import ApiServer
from unisono.dashboard.server import DashboardServer
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import load

KEY = "X-Unisono-Key"


@dataclass
class Reply:
    """An answer, read to its end."""

    status: int
    headers: Any
    text: str

    def json(self) -> Any:
        return json.loads(self.text)


@dataclass
class Browser:
    """Asks the dashboard as a browser with the page does."""

    url: str
    session: aiohttp.ClientSession
    key: str = ""
    cookies: dict[str, str] = field(default_factory=dict)

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        sent = {KEY: self.key, **({"Content-Type": "application/json"} if method != "GET" else {}), **headers}
        data = None if body is None else io.BytesIO(json.dumps(body).encode())
        async with self.session.request(
            method, self.url + path, data=data, headers=sent, cookies=self.cookies, allow_redirects=False
        ) as answer:
            if answer.content_type == "text/event-stream":
                return Reply(answer.status, answer.headers, (await answer.content.readany()).decode())
            return Reply(answer.status, answer.headers, await answer.text())

    async def sign_in(self, **given: Any) -> Reply:
        reply = await self.call("POST", "/api/session", given)
        if reply.status == 200:
            self.key = reply.json()["key"]
            name, _, rest = reply.headers["Set-Cookie"].partition("=")
            self.cookies = {name: rest.partition(";")[0]}
        return reply

    async def events(self, path: str) -> AsyncIterator[tuple[str, Any]]:
        """Events of a stream, until the reader has enough."""
        async with self.session.get(self.url + path, headers={KEY: self.key}, cookies=self.cookies) as answer:
            assert answer.status == 200, await answer.text()
            block: dict[str, str] = {}
            async for line in answer.content:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name:
                    block[name] = value
                elif block.get("event"):
                    yield block["event"], json.loads(block["data"])
                    block = {}

    async def view(self, path: str, until: Any = lambda view: view["ready"]) -> dict[str, Any]:
        """The view of a stream when it has become what is waited for."""
        view: dict[str, Any] = {}
        async for event, data in self.events(path):
            view = data if event == "view" else apply_merge_patch(view, data) if event == "change" else view
            if event == "refused" or until(view):
                return view
        raise AssertionError(f"the stream ended with {view}")


@dataclass
class Setting:
    """The servers of one test."""

    admin: HttpClient
    dashboard: DashboardServer
    session: aiohttp.ClientSession

    def browser(self) -> Browser:
        return Browser(self.dashboard.url, self.session)

    async def put(self, path: str, **body: Any) -> dict[str, Any]:
        """Create an object."""
        parts = path.split("/")
        version = parts[2] if parts[1] == "api" else f"{parts[2]}/{parts[3]}"
        kinds = {"token": ("authentication.k8s.io/v1", "TokenRequest")}
        kinds |= {kind.plural: (kind.api_version, kind.kind) for kind in ALL_KINDS if kind.api_version == version}
        api_version, kind = kinds[parts[-1]]
        whole = {"apiVersion": api_version, "kind": kind, **body}
        status, _, answer = await self.admin.request("POST", path, body=json.dumps(whole).encode())
        assert status == 201, answer
        return dict(json.loads(answer))

    async def patch(self, path: str, body: Any) -> None:
        status, _, answer = await self.admin.request(
            "PATCH", path, body=json.dumps(body).encode(), content_type="application/merge-patch+json"
        )
        assert status == 200, answer

    async def account(self, namespace: str, name: str, verbs: list[str], *, cluster: bool = False) -> str:
        """A token of a new account with these verbs on everything in its namespace, or everywhere."""
        core, rbac = f"/api/v1/namespaces/{namespace}", "/apis/rbac.authorization.k8s.io/v1"
        await self.put(f"{core}/serviceaccounts", metadata={"name": name})
        role, where = ("ClusterRole", rbac) if cluster else ("Role", f"{rbac}/namespaces/{namespace}")
        rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": verbs}]
        await self.put(f"{where}/{role.lower()}s", metadata={"name": name}, rules=rules)
        await self.put(
            f"{where}/{role.lower()}bindings",
            metadata={"name": name},
            roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name},
            subjects=[{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        )
        answer = await self.put(f"{core}/serviceaccounts/{name}/token", spec={})
        return str(answer["status"]["token"])

    async def viewer(self, namespace: str = "team-a") -> str:
        """A token that may read everything in one namespace."""
        return await self.account(namespace, "viewer", ["get", "list", "watch"])

    async def job(self, namespace: str, name: str, **spec: Any) -> dict[str, Any]:
        """A Volcano Job with a PodGroup and a pod of its own, as controllers would make them."""
        container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
        template = {"spec": {"containers": [container]}}
        tasks = [{"name": "worker", "replicas": 1, "template": template}]
        job = await self.put(
            f"/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs",
            metadata={"name": name},
            spec={"minAvailable": 1, "tasks": tasks, **spec},
        )
        owner = {
            "apiVersion": job["apiVersion"],
            "kind": "Job",
            "name": name,
            "uid": job["metadata"]["uid"],
            "controller": True,
        }
        group = f"{name}-{job['metadata']['uid']}"
        await self.put(
            f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups",
            metadata={"name": group, "ownerReferences": [owner]},
            spec={"minMember": 1, "queue": "default"},
        )
        await self.put(
            f"/api/v1/namespaces/{namespace}/pods",
            metadata={
                "name": f"{name}-worker-0",
                "annotations": {"scheduling.k8s.io/group-name": group},
                "labels": {"volcano.sh/job-name": name},
                "ownerReferences": [owner],
            },
            spec=template["spec"] | {"schedulerName": "volcano"},
        )
        return job


@asynccontextmanager
async def running(folder: Path, **options: Any) -> AsyncIterator[Setting]:
    backend = await Backend.open(folder / "state.db")
    server = ApiServer(backend.service, data_dir=folder)
    await server.start()
    config = load(server.kubeconfig_path)
    admin = HttpClient(config)
    dashboard = DashboardServer(config, **options)
    await dashboard.start()
    try:
        async with aiohttp.ClientSession(
            cookie_jar=aiohttp.DummyCookieJar(), timeout=aiohttp.ClientTimeout(total=120)
        ) as session:
            yield Setting(admin, dashboard, session)
    finally:
        await dashboard.stop()
        await admin.close()
        await server.stop()
        await backend.close()
