"""Behind an authenticating proxy, which sends each user's token of the API server, as for OIDC; and as a component."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from support.dashboards import Setting, running
from unisono.dashboard.server import DashboardPart, address, cluster_without_account
from unisono.errors import ConfigError

HEADER = "X-Forwarded-Access-Token"


@pytest.fixture
async def proxied(tmp_path: Path) -> AsyncIterator[Setting]:
    async with running(tmp_path, token_header=HEADER) as found:
        for namespace in ("team-a", "team-b"):
            await found.put("/api/v1/namespaces", metadata={"name": namespace})
            await found.job(namespace, f"only-{namespace}")
        yield found


async def test_the_token_of_a_proxy_signs_in_and_shows_what_its_user_may_see(proxied: Setting) -> None:
    browser, token = proxied.browser(), await proxied.viewer()
    reply = await browser.call("POST", "/api/session", {}, **{HEADER: token})
    assert (reply.status, reply.json()["user"]) == (200, "system:serviceaccount:team-a:viewer")
    assert "HttpOnly" in reply.headers["Set-Cookie"]
    name, _, rest = reply.headers["Set-Cookie"].partition("=")
    browser.key, browser.cookies = reply.json()["key"], {name: rest.partition(";")[0]}
    view = await browser.view("/api/views/jobs")
    assert list(view["rows"]) == ["jobs.batch.volcano.sh/team-a/only-team-a"]


@pytest.mark.parametrize("value", ["", "nonsense", "Basic dXNlcjpwYXNz", "Bearer ", "Bearer nonsense", "a b c"])
async def test_what_is_no_token_signs_no_one_in(proxied: Setting, value: str) -> None:
    reply = await proxied.browser().call("POST", "/api/session", {}, **{HEADER: value})
    assert reply.status == 401
    assert "Set-Cookie" not in reply.headers


async def test_authorization_with_a_bearer_token_does_too(tmp_path: Path) -> None:
    async with running(tmp_path, token_header="Authorization") as setting:
        await setting.put("/api/v1/namespaces", metadata={"name": "team-a"})
        token = await setting.viewer()
        for value, status in ((f"Bearer {token}", 200), (f"bearer {token}", 200), (f"Basic {token}", 401)):
            assert (await setting.browser().call("POST", "/api/session", {}, Authorization=value)).status == status


async def test_without_a_proxy_its_header_means_nothing(setting: Setting) -> None:
    await setting.put("/api/v1/namespaces", metadata={"name": "team-a"})
    token = await setting.viewer()
    for header in (HEADER, "Authorization"):
        reply = await setting.browser().call("POST", "/api/session", {}, **{header: token})
        assert reply.status == 401


async def test_a_new_token_of_the_same_user_goes_on_and_another_user_s_ends_the_session(proxied: Setting) -> None:
    browser, token = proxied.browser(), await proxied.viewer()
    reply = await browser.call("POST", "/api/session", {}, **{HEADER: token})
    name, _, rest = reply.headers["Set-Cookie"].partition("=")
    browser.key, browser.cookies = reply.json()["key"], {name: rest.partition(";")[0]}
    path = "/api/v1/namespaces/team-a/serviceaccounts/viewer/token"
    renewed = str((await proxied.put(path, spec={}))["status"]["token"])
    assert renewed != token
    assert (await browser.call("GET", "/api/session", **{HEADER: renewed})).status == 200
    # The header of a request that was not sent through the proxy does not change whose session it is.
    assert (await browser.call("GET", "/api/session")).status == 200
    other = await proxied.account("team-b", "other", ["get"])
    reply = await browser.call("GET", "/api/session", **{HEADER: other})
    assert (reply.status, "another user" in reply.json()["error"]) == (401, True)
    assert (await browser.call("GET", "/api/session", **{HEADER: token})).status == 401


async def test_who_signed_in_with_a_token_of_their_own_stays_who_they_are(proxied: Setting) -> None:
    browser = proxied.browser()
    assert (await browser.sign_in(token=await proxied.viewer())).status == 200
    other = await proxied.account("team-b", "other", ["get"])
    reply = await browser.call("GET", "/api/session", **{HEADER: other})
    assert reply.json()["user"] == "system:serviceaccount:team-a:viewer"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (":8090", ("0.0.0.0", 8090)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:80", ("::1", 80)),
        ("8090", ("0.0.0.0", 8090)),
        ("host:", None),
        ("", None),
        ("host:99999", None),
        ("host:x", None),
    ],
)
def test_addresses(text: str, found: tuple[str, int] | None) -> None:
    if found is None:
        with pytest.raises(ConfigError, match="no address"):
            address(text)
    else:
        assert address(text) == found


@pytest.mark.parametrize(
    ("env", "server"),
    [
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}, "https://10.0.0.1:6443"),
        ({"KUBERNETES_SERVICE_HOST": "fd00::1"}, "https://[fd00::1]:443"),
    ],
)
def test_a_pod_without_an_account_knows_its_api_server_and_nothing_else(
    tmp_path: Path, env: dict[str, str], server: str
) -> None:
    ca = tmp_path / "ca.crt"
    ca.write_bytes(b"PEM")
    config = cluster_without_account(ca, env)
    assert (config.server, config.ca, config.token, config.token_file) == (server, b"PEM", None, None)
    with pytest.raises(ConfigError, match="does not run in a pod"):
        cluster_without_account(ca, {})


async def test_as_a_component_it_serves_until_it_is_ended(setting: Setting) -> None:
    config = setting.dashboard.sessions.base
    part = DashboardPart(config, "127.0.0.1:0", ["d.example.com"], secure=True, token_header=HEADER)
    running = asyncio.create_task(part.run())
    await part.ready.wait()
    assert (part.unready(), dict(part.streams())) == ([], {})
    async with setting.session.get(f"{part.url}/api/session", headers={"Host": "d.example.com"}) as answer:
        assert answer.status == 401
    async with setting.session.get(f"{part.url}/api/session", headers={"Host": "evil.example"}) as answer:
        assert answer.status == 403
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert not part.ready.is_set()
