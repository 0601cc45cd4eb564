"""``unisono report`` on a cluster: the dashboard answers a command with the rights of the user who runs it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web
from click.testing import CliRunner, Result

from dashboard.test_dashboard_past import QUESTIONS, filled, timeless
from support.dashboards import Setting, running
from unisono.api.kinds import SERVICES
from unisono.cli.main import cli
from unisono.dashboard.http.sessions import without_credentials
from unisono.dashboard.live.configuration import may
from unisono.errors import ApiError
from unisono.history.reading import StoredHistory
from unisono.install.dashboard_server import readers, service_path
from unisono.install.workloads import NAMESPACE, InstallOptions
from unisono.kube.http import HttpClient

PREFIX = service_path(NAMESPACE)
TOKEN = "X-Unisono-Token"


def status_body(code: int, message: str) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}
    return web.json_response(body, status=code)


@dataclass
class Front:
    """An API server that knows no history and passes requests to Services on, as kube-apiserver does.

    Attributes:
        setting: whose API server decides about rights, and whose dashboard is the Service.
        url: of this server.
        there: the Service exists, and has a pod.
        seen: headers of what was passed on.

    """

    setting: Setting
    url: str = ""
    there: int = 200
    seen: dict[str, str] | None = None

    async def answer(self, request: web.Request) -> web.StreamResponse:
        authorization = request.headers.get("Authorization", "")
        if not request.path.startswith(PREFIX):
            return status_body(403, f'User "u" cannot get path "{request.path}"')
        token = authorization.removeprefix("Bearer ")
        client = HttpClient(replace(without_credentials(self.setting.admin.config), token=token))
        try:
            allowed = await may(client, "get", SERVICES, NAMESPACE, PREFIX.split("/")[-2], "proxy")
        except ApiError:
            return status_body(401, "Unauthorized")
        finally:
            await client.close()
        if not allowed:
            return status_body(
                403, 'services "unisono-dashboard:http" is forbidden: User "u" cannot get services/proxy'
            )
        if self.there == 404:
            return status_body(404, 'services "unisono-dashboard:http" not found')
        if self.there == 503:
            return status_body(503, 'no endpoints available for service "unisono-dashboard:http"')
        # The Host stays that of this server, and the credentials are its own alone.
        passed = {name: value for name, value in request.headers.items() if name != "Authorization"}
        self.seen = passed
        url = f"{self.setting.dashboard.url}{request.path_qs.removeprefix(PREFIX)}"
        async with self.setting.session.get(url, headers=passed) as found:
            return web.Response(status=found.status, body=await found.read(), content_type=found.content_type)


@pytest.fixture
async def front(tmp_path: Path) -> AsyncIterator[Front]:
    async with running(tmp_path, page=tmp_path, history=StoredHistory(filled(tmp_path / "history.db"))) as setting:
        for namespace in ("team-a", "team-b", NAMESPACE):
            await setting.put("/api/v1/namespaces", metadata={"name": namespace})
        found = Front(setting)
        app = web.Application()
        app.router.add_get("/{path:.*}", found.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        found.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield found
        await runner.cleanup()


async def everybody_may_ask(front: Front) -> None:
    """As the installation does."""
    for each in readers(InstallOptions(dashboard=True, history_secret="history")):
        plural = f"{each['kind'].lower()}s"
        rest = {key: value for key, value in each.items() if key not in ("apiVersion", "kind")}
        await front.setting.put(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/{plural}", **rest)


def kubeconfig(folder: Path, server: str, user: dict[str, Any]) -> Path:
    path = folder / "user.kubeconfig"
    text = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(text))
    return path


def told(done: Result) -> Any:
    """The JSON of a command; the API server of this process logs into the same output."""
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout[done.stdout.index("{\n") :])


async def command(*arguments: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, cli, list(arguments))


async def test_a_user_is_shown_what_the_own_rights_allow(front: Front, tmp_path: Path) -> None:
    """No namespace has to be named, and nothing of the other ones is told."""
    await everybody_may_ask(front)
    file = kubeconfig(tmp_path, front.url, {"token": await front.setting.viewer("team-a")})
    done = await command("report", "--kubeconfig", str(file), "--by", "namespace", "-o", "json")
    assert done.exit_code == 0, done.output
    answer = told(done)
    assert [(row["key"], round(row["gpu_hours"], 3)) for row in answer["rows"]] == [("team-a", 3)]
    assert not answer.get("capacity")
    done = await command("sacct", "--kubeconfig", str(file), "-o", "json")
    assert {job["namespace"] for job in told(done)["jobs"]} == {"team-a"}
    assert front.seen is not None
    assert "Authorization" not in front.seen
    done = await command("report", "--kubeconfig", str(file), "-n", "team-b", "-o", "json")
    assert told(done)["rows"] == []


async def test_nothing_is_watched_for_a_question(front: Front, tmp_path: Path) -> None:
    await everybody_may_ask(front)
    file = kubeconfig(tmp_path, front.url, {"token": await front.setting.viewer("team-a")})
    assert (await command("report", "--kubeconfig", str(file))).exit_code == 0
    sessions = front.setting.dashboard.sessions
    assert not sessions._worlds.open
    assert not sessions._sessions


async def test_who_sees_everything_is_told_everything(front: Front, tmp_path: Path) -> None:
    token = await front.setting.account("team-a", "all", ["get", "list", "watch"], cluster=True)
    file = kubeconfig(tmp_path, front.url, {"token": token})
    done = await command("report", "--kubeconfig", str(file), "--by", "namespace", "-o", "json")
    answer = told(done)
    assert {row["key"] for row in answer["rows"]} == {"team-a", "team-b", "gone"}
    assert answer["capacity"]


async def test_the_dashboards_own_address_does_as_well(front: Front, tmp_path: Path) -> None:
    file = kubeconfig(tmp_path, front.url, {"token": await front.setting.viewer("team-a")})
    url = front.setting.dashboard.url
    done = await command("report", "--kubeconfig", str(file), "--dashboard", url, "--by", "namespace", "-o", "json")
    assert [row["key"] for row in told(done)["rows"]] == ["team-a"]


WAYS_OUT = {
    "no right to ask": (200, False, (), "may not ask the dashboard through the API server.*--dashboard"),
    "no dashboard": (404, True, (), "unisono install --dashboard --history-dsn-secret NAME"),
    "its pod is away": (503, True, (), "does not answer now: no endpoints"),
    "nothing of ours": (200, True, ("--dashboard", "{front}"), "is no dashboard of Unisono"),
    "unencrypted": (200, True, ("--dashboard", "http://example.com"), "https://.*port-forward"),
    "no address": (200, True, ("--dashboard", "ftp://x"), "is no address"),
}


@pytest.mark.parametrize("case", WAYS_OUT)
async def test_an_error_says_the_way_out(front: Front, tmp_path: Path, case: str) -> None:
    there, allowed, options, said = WAYS_OUT[case]
    if allowed:
        await everybody_may_ask(front)
    front.there = there
    file = kubeconfig(tmp_path, front.url, {"token": await front.setting.viewer("team-a")})
    given = [each.format(front=front.url) for each in options]
    done = await command("report", "--kubeconfig", str(file), *given)
    assert done.exit_code != 0
    text = " ".join(f"{done.output} {done.exception}".split())
    assert re.search(said, text), text


async def test_a_kubeconfig_without_a_token_says_what_to_give(front: Front, tmp_path: Path) -> None:
    file = kubeconfig(tmp_path, front.url, {"username": "u", "password": "secret-word"})
    done = await command("report", "--kubeconfig", str(file))
    text = f"{done.output} {done.exception}"
    assert done.exit_code != 0
    assert "a client certificate cannot be passed on" in " ".join(text.split())
    assert "secret-word" not in text


@pytest.mark.parametrize("path", [each.replace("/api/history", "/api/questions/history") for each in QUESTIONS])
async def test_a_question_tells_nothing_of_another_namespace(front: Front, path: str) -> None:
    token = await front.setting.viewer("team-a")
    url = front.setting.dashboard.url + path
    async with front.setting.session.get(url, headers={TOKEN: f"Bearer {token}", "Host": "anything"}) as reply:
        text = await reply.text()
    hidden = ("8765",) if "/shares" in path else ("team-b", "gone", "1000", "4321", "8765")
    answer = json.dumps(timeless(json.loads(text)))
    # What was asked for is said again where it cannot be read.
    assert reply.status in (200, 403, 404) or "by must be" in answer
    assert not [each for each in hidden if each in answer], answer


REFUSED: dict[str, tuple[str, dict[str, str], int]] = {
    "no token": ("GET", {}, 401),
    "a wrong token": ("GET", {TOKEN: "nonsense"}, 401),
    "another kind of credentials": ("GET", {TOKEN: "Basic eDp4"}, 401),
    "two tokens": ("GET", {TOKEN: "Bearer a b"}, 401),
    "the token where sessions have none": ("GET", {"Authorization": "Bearer {token}"}, 401),
    "a cookie of a session": ("GET", {"Cookie": "{cookie}", "X-Unisono-Key": "{key}"}, 401),
    "a page of another site": ("GET", {TOKEN: "{token}", "Origin": "https://evil.example"}, 403),
    "a page of this site": ("GET", {TOKEN: "{token}", "Sec-Fetch-Site": "same-origin"}, 403),
    "before a page asks": ("OPTIONS", {"Access-Control-Request-Method": "GET"}, 403),
    "a change": ("POST", {TOKEN: "{token}"}, 403),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_only_a_command_with_a_token_may_ask(front: Front, case: str) -> None:
    method, headers, status = REFUSED[case]
    token = await front.setting.account("team-a", "all", ["get", "list", "watch"], cluster=True)
    browser = front.setting.browser()
    assert (await browser.sign_in(token=token)).status == 200
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    given = {name: value.format(token=token, cookie=cookie, key=browser.key) for name, value in headers.items()}
    url = f"{front.setting.dashboard.url}/api/questions/history/report"
    async with front.setting.session.request(method, url, headers=given) as reply:
        assert reply.status == status
        assert "team-" not in await reply.text()


async def test_a_dashboard_without_a_database_says_so(tmp_path: Path) -> None:
    async with running(tmp_path, page=tmp_path) as setting, aiohttp.ClientSession() as session:
        await setting.put("/api/v1/namespaces", metadata={"name": "team-a"})
        headers = {TOKEN: await setting.viewer("team-a")}
        async with session.get(f"{setting.dashboard.url}/api/questions/history/report", headers=headers) as reply:
            assert reply.status == 404
            assert "--history-dsn-secret" in await reply.text()
