"""Viewers as pages are: signed in, with streams of views."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import aiohttp

from unisono.api.documents import apply_merge_patch
from unisono.kube.http import HttpClient

_KEY = "X-Unisono-Key"


class Viewer:
    """One open page.

    Args:
        url: of the dashboard.
        session: HTTP connections of its own.
        key, cookies: of its sign-in.
        namespace: the only one that it sees; empty for all.
    """

    def __init__(
        self, url: str, session: aiohttp.ClientSession, key: str, cookies: dict[str, str], namespace: str = ""
    ) -> None:
        self._url, self._session, self._key, self._cookies, self._namespace = url, session, key, cookies, namespace
        self._expected: dict[str, asyncio.Future[float]] = {}
        self.shows: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def signed_in(cls, url: str, **given: Any) -> Viewer:
        """Sign in with ``code`` or ``token``."""
        session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), timeout=aiohttp.ClientTimeout(total=None))
        async with session.post(f"{url}/api/session", json=given) as answer:
            assert answer.status == 200, await answer.text()
            who = await answer.json()
            name, _, rest = answer.headers["Set-Cookie"].partition("=")
        user = str(who["user"])
        namespace = user.split(":")[2] if user.startswith("system:serviceaccount:") else ""
        return cls(url, session, who["key"], {name: rest.partition(";")[0]}, namespace)

    async def another(self) -> Viewer:
        """Another page of the same user."""
        session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), timeout=aiohttp.ClientTimeout(total=None))
        return Viewer(self._url, session, self._key, self._cookies, self._namespace)

    def sees(self, namespace: str) -> bool:
        """Whether it may see what is there."""
        return self._namespace in ("", namespace)

    async def events(self, path: str) -> AsyncIterator[tuple[str, str]]:
        """Events of a stream as they come, not decoded."""
        headers = {_KEY: self._key}
        async with self._session.get(
            self._url + path, headers=headers, cookies=self._cookies, read_bufsize=1 << 22
        ) as answer:
            assert answer.status == 200, await answer.text()
            event = ""
            while line := await answer.content.readline():
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name == "event":
                    event = value
                elif name == "data":
                    yield event, value

    async def view(self, path: str) -> dict[str, Any]:
        """The view once everything was read."""
        view: dict[str, Any] = {}
        async for event, data in self.events(path):
            told = json.loads(data)
            view = told if event == "view" else apply_merge_patch(view, told) if event == "change" else view
            if view.get("ready"):
                return view
        raise AssertionError("the stream ended")

    async def first_rows(self, path: str) -> float:
        """Seconds from the request until rows are there, of a cluster that may not have been read to its end."""
        began = time.perf_counter()
        view: dict[str, Any] = {}
        async for event, data in self.events(path):
            told = json.loads(data)
            view = told if event == "view" else apply_merge_patch(view, told) if event == "change" else view
            if view.get("rows"):
                break
        return time.perf_counter() - began

    async def first_view(self, path: str) -> float:
        """Seconds from the request to the whole view."""
        began = time.perf_counter()
        await self.view(path)
        return time.perf_counter() - began

    async def follow(self, path: str) -> None:
        """Keep a page open, and note when what is expected comes."""
        if self.shows.done():
            self.shows = asyncio.get_running_loop().create_future()
        async for _, data in self.events(path):
            if not self.shows.done() and '"ready":true' in data:
                self.shows.set_result(None)
            for mark in [mark for mark in self._expected if mark in data]:
                self._expected.pop(mark).set_result(time.perf_counter())

    def expect(self, mark: str) -> asyncio.Future[float]:
        """When a text comes (`time.perf_counter`)."""
        self._expected[mark] = asyncio.get_running_loop().create_future()
        return self._expected[mark]

    async def close(self) -> None:
        """Close its connections."""
        await self._session.close()


async def token_of(admin: HttpClient, namespace: str) -> str:
    """A token of a user who may read everything in one namespace."""
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    core = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    api = "rbac.authorization.k8s.io"
    for path, body in (
        (core, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "viewer"}}),
        (
            f"{rbac}/roles",
            {
                "apiVersion": f"{api}/v1",
                "kind": "Role",
                "metadata": {"name": "viewer"},
                "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}],
            },
        ),
        (
            f"{rbac}/rolebindings",
            {
                "apiVersion": f"{api}/v1",
                "kind": "RoleBinding",
                "metadata": {"name": "viewer"},
                "roleRef": {"apiGroup": api, "kind": "Role", "name": "viewer"},
                "subjects": [{"kind": "ServiceAccount", "name": "viewer", "namespace": namespace}],
            },
        ),
    ):
        status, _, answer = await admin.request("POST", path, body=json.dumps(body).encode())
        assert status in (201, 409), answer
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    _, _, answer = await admin.request("POST", f"{core}/viewer/token", body=json.dumps(body).encode())
    return str(json.loads(answer)["status"]["token"])


async def administrator(admin: HttpClient) -> str:
    """A token that may read everything."""
    token = await token_of(admin, "default")
    api = "rbac.authorization.k8s.io"
    for path, body in (
        ("clusterroles", {"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]}),
        (
            "clusterrolebindings",
            {
                "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": "reads-all"},
                "subjects": [{"kind": "ServiceAccount", "name": "viewer", "namespace": "default"}],
            },
        ),
    ):
        kind = "ClusterRole" if path == "clusterroles" else "ClusterRoleBinding"
        whole = {"apiVersion": f"{api}/v1", "kind": kind, "metadata": {"name": "reads-all"}, **body}
        status, _, answer = await admin.request("POST", f"/apis/{api}/v1/{path}", body=json.dumps(whole).encode())
        assert status in (201, 409), answer
    return token


def percentile(values: Sequence[float], part: float) -> float:
    """The value that a part of all is at most; 0 of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(part * (len(ordered) - 1)))] if ordered else 0.0
