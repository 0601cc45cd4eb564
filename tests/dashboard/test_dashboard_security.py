"""Nobody sees or changes through the dashboard what the API server would not let them see or change."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, suppress
from typing import Any

import aiohttp
import pytest

from support.dashboards import Browser, Setting
from unisono.dashboard.http.guard import SECURITY_HEADERS, hosts_of, refusal
from unisono.dashboard.live.elsewhere import Turns
from unisono.errors import ApiError

JOB = "apiVersion=batch.volcano.sh/v1alpha1&kind=Job&namespace={0}&name=only-{0}"
POD = "apiVersion=v1&kind=Pod&namespace={0}&name=only-{0}-worker-0"
VIEWS = (
    "/api/views/overview",
    "/api/views/jobs",
    "/api/views/queues",
    "/api/views/nodes",
    "/api/views/scheduler",
    "/api/views/fleet",
    f"/api/views/job?{JOB}",
)
REF = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "namespace": "team-b", "name": "only-team-b"}
ACTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/api/fix", {**REF, "id": "x"}),
    ("/api/search", REF),
    ("/api/job", {**REF, "action": "delete"}),
    ("/api/job", {**REF, "action": "suspend"}),
    ("/api/queue", {"name": "team", "spec": "weight: 9"}),
    ("/api/node", {"name": "n1", "cordon": True}),
    ("/api/whatif", {"changes": ""}),
)
HISTORY = ("/api/history/report", "/api/history/jobs", "/api/history/shares")
READS = (*VIEWS, *HISTORY, "/api/configuration", f"/api/logs?{POD}", f"/api/object?{POD}", "/api/session")
HOST = "127.0.0.1:8000"


def read_path(path: str, namespace: str = "team-b") -> str:
    return path.format(namespace)


async def signed_in(setting: Setting, token: str, *namespaces: str) -> Browser:
    browser = setting.browser()
    reply = await browser.sign_in(token=token, namespaces=list(namespaces))
    assert reply.status == 200, reply.text
    return browser


# ---- who asks


@pytest.mark.parametrize("path", READS)
async def test_nothing_is_read_without_an_identity(two_teams: Setting, path: str) -> None:
    browser = await signed_in(two_teams, await two_teams.viewer())
    whole = browser.key, browser.cookies
    for key, cookies in (("", {}), (whole[0], {}), ("", whole[1]), ("x" * 43, whole[1])):
        browser.key, browser.cookies = key, cookies
        reply = await browser.call("GET", read_path(path))
        assert (reply.status, "team-b" in reply.text) == (401, False)


@pytest.mark.parametrize(("path", "body"), ACTIONS)
async def test_nothing_is_changed_without_an_identity(two_teams: Setting, path: str, body: dict[str, Any]) -> None:
    reply = await two_teams.browser().call("POST", path, body)
    assert reply.status == 401


@pytest.mark.parametrize("token", ["", "nonsense", "two words", "line\nend", "ü", "Bearer x"])
async def test_what_is_no_token_signs_nobody_in(setting: Setting, token: str) -> None:
    reply = await setting.browser().sign_in(token=token)
    assert reply.status == 401
    assert "Set-Cookie" not in reply.headers


async def test_a_link_signs_in_once(setting: Setting) -> None:
    code = setting.dashboard.link().partition("#code=")[2]
    first = await setting.browser().sign_in(code=code)
    assert (first.status, first.json()["user"]) == (200, "unisono-admin")
    again = await setting.browser().sign_in(code=code)
    assert (again.status, "used already" in again.text) == (401, True)
    assert (await setting.browser().sign_in(code="guessed")).status == 401


async def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(setting: Setting) -> None:
    reply = await setting.browser().sign_in(code=setting.dashboard.link().partition("#code=")[2])
    parts = {part.strip().partition("=")[0].lower() for part in reply.headers["Set-Cookie"].split(";")[1:]}
    assert {"httponly", "samesite", "path"} <= parts
    assert "SameSite=Strict" in reply.headers["Set-Cookie"]
    assert "Path=/api/" in reply.headers["Set-Cookie"]


async def test_after_signing_out_nothing_is_answered(setting: Setting) -> None:
    browser = setting.browser()
    await browser.sign_in(code=setting.dashboard.link().partition("#code=")[2])
    assert (await browser.call("DELETE", "/api/session")).status == 200
    assert (await browser.call("GET", "/api/session")).status == 401


# ---- what they may see


@pytest.mark.parametrize("path", VIEWS)
async def test_a_viewer_of_one_namespace_sees_nothing_of_another(two_teams: Setting, path: str) -> None:
    browser = await signed_in(two_teams, await two_teams.viewer(), "team-b")
    view = await browser.view(read_path(path))
    assert "only-team-b" not in json.dumps(view)
    own = await browser.view(read_path("/api/views/jobs"))
    assert list(own["rows"]) == ["jobs.batch.volcano.sh/team-a/only-team-a"]


@pytest.mark.parametrize("path", [f"/api/logs?{POD}", f"/api/object?{POD}", f"/api/object?{JOB}"])
async def test_objects_and_logs_of_another_namespace_are_refused(two_teams: Setting, path: str) -> None:
    browser = await signed_in(two_teams, await two_teams.viewer())
    reply = await browser.call("GET", read_path(path))
    assert "forbidden" in reply.text
    assert "containers" not in reply.text


@pytest.mark.parametrize("path", HISTORY)
async def test_the_past_is_asked_of_the_server_and_its_words_are_shown(two_teams: Setting, path: str) -> None:
    browser = await signed_in(two_teams, await two_teams.viewer())
    reply = await browser.call("GET", f"{path}?queue=team")
    if path.endswith("shares"):
        # What the dashboard has seen itself, of queues, which this viewer may not list.
        assert (reply.status, reply.json()["lines"]) == (200, [])
        return
    # This server keeps no history; with one, tests/history have a table of who sees which rows.
    assert (reply.status, "no history is kept" in reply.text, "team-b" in reply.text) == (404, True, False)


@pytest.mark.parametrize("path", ["/api/history/../version", "/api/history/", "/api/history/x%2F..%2F..%2Fversion"])
async def test_no_other_path_of_the_server_is_reached_by_the_past(two_teams: Setting, path: str) -> None:
    browser = await signed_in(two_teams, await two_teams.viewer())
    reply = await browser.call("GET", path)
    assert (reply.status, "gitVersion" in reply.text) == (404, False)


@pytest.mark.parametrize(("path", "body"), ACTIONS)
async def test_actions_in_another_namespace_are_refused_in_the_servers_words(
    two_teams: Setting, path: str, body: dict[str, Any]
) -> None:
    browser = await signed_in(two_teams, await two_teams.account("team-a", "admin", ["*"]))
    reply = await browser.call("POST", path, body)
    assert (reply.status, "forbidden" in reply.json()["error"]) == (403, True)


async def test_secrets_are_shown_to_nobody_who_may_not_read_them(two_teams: Setting) -> None:
    await two_teams.put(
        "/api/v1/namespaces/team-b/secrets", metadata={"name": "s"}, stringData={"password": "correct horse"}
    )
    browser = await signed_in(two_teams, await two_teams.viewer())
    reply = await browser.call("GET", "/api/object?apiVersion=v1&kind=Secret&namespace=team-b&name=s")
    assert reply.status == 403


async def test_a_right_that_is_taken_away_ends_what_is_shown(
    two_teams: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unisono.dashboard.live.world._RIGHTS_SECONDS", 0.05)
    browser = await signed_in(two_teams, await two_teams.viewer())
    totals: list[int] = []
    async for event, data in browser.events("/api/views/jobs"):
        if event == "reading":
            continue
        totals.append(data.get("total", totals[-1] if totals else 0))
        if totals[-1] and totals[-2:-1] != totals[-1:]:
            path = "/apis/rbac.authorization.k8s.io/v1/namespaces/team-a/rolebindings/viewer"
            await two_teams.admin.request("DELETE", path)
        if totals[-1] == 0 and any(totals):
            break
    assert (max(totals), totals[-1]) == (1, 0)


async def test_a_token_that_ends_ends_the_view(two_teams: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unisono.dashboard.live.world._RIGHTS_SECONDS", 0.05)
    browser = await signed_in(two_teams, await two_teams.viewer())
    told = []
    async for event, data in browser.events("/api/views/jobs"):
        told.append(event)
        if event == "view" or (event == "change" and data.get("ready")):
            await two_teams.admin.request("DELETE", "/api/v1/namespaces/team-a/serviceaccounts/viewer")
        if event == "refused":
            break
    assert told[-1] == "refused"


# ---- from where they ask


@pytest.mark.parametrize(
    ("method", "path", "headers", "why"),
    [
        ("GET", "/", {"Host": HOST}, ""),
        ("GET", "/", {"Host": "localhost:8000"}, ""),
        ("GET", "/jobs", {"Host": HOST, "Sec-Fetch-Site": "cross-site"}, ""),
        ("GET", "/", {"Host": "evil.example:8000"}, "name"),
        ("GET", "/api/views/jobs", {"Host": "evil.example"}, "name"),
        ("GET", "/", {"Host": "127.0.0.1"}, "name"),
        ("GET", "/", {"Host": "127.0.0.1:8000.evil.example"}, "name"),
        ("GET", "/", {}, "name"),
        ("GET", "/api/views/jobs", {"Host": HOST, "Origin": "http://evil.example"}, "other sites"),
        ("GET", "/api/views/jobs", {"Host": HOST, "Origin": "null"}, "other sites"),
        ("GET", "/api/views/jobs", {"Host": HOST, "Origin": "http://127.0.0.1:8001"}, "other sites"),
        ("GET", "/api/views/jobs", {"Host": HOST, "Origin": f"https://{HOST}"}, "other sites"),
        ("GET", "/api/views/jobs", {"Host": HOST, "Origin": f"http://{HOST}"}, ""),
        ("GET", "/api/views/jobs", {"Host": HOST, "Sec-Fetch-Site": "cross-site"}, "other sites"),
        ("GET", "/api/views/jobs", {"Host": HOST, "Sec-Fetch-Site": "same-site"}, "other sites"),
        ("POST", "/api/fix", {"Host": HOST, "Content-Type": "text/plain"}, "Content-Type"),
        ("POST", "/api/fix", {"Host": HOST, "Content-Type": "application/x-www-form-urlencoded"}, "Content-Type"),
        ("POST", "/api/fix", {"Host": HOST}, "Content-Type"),
        ("POST", "/api/fix", {"Host": HOST, "Content-Type": "application/json; charset=utf-8"}, ""),
        ("DELETE", "/api/session", {"Host": HOST}, "Content-Type"),
        ("POST", "/", {"Host": HOST, "Content-Type": "application/json"}, "alone"),
    ],
)
def test_requests_of_other_sites_and_under_other_names_are_refused(
    method: str, path: str, headers: dict[str, str], why: str
) -> None:
    told = refusal(method, path, headers, hosts_of("127.0.0.1", 8000), "http")
    assert (why in told) if why else not told


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "169.254.169.254"])
async def test_another_name_of_this_address_is_refused(setting: Setting, host: str) -> None:
    for path in ("/", "/api/session", "/assets/app.js"):
        reply = await setting.browser().call("GET", path, Host=host)
        assert (reply.status, "<title>" in reply.text) == (403, False)


async def test_every_answer_says_what_the_browser_may_do_with_it(setting: Setting) -> None:
    browser = setting.browser()
    await browser.sign_in(code=setting.dashboard.link().partition("#code=")[2])
    for path in ("/", "/assets/app.js", "/nowhere", "/assets/none.js", "/api/session", "/api/none", "/api/views/jobs"):
        reply = await browser.call("GET", path)
        for name, value in SECURITY_HEADERS.items():
            assert reply.headers[name] == value, (path, name)
        assert "Access-Control-Allow-Origin" not in reply.headers
        assert reply.headers["Server"] == "unisono"
    policy = SECURITY_HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../../secret.txt",
        "/assets/..%2f..%2fsecret.txt",
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/assets//../secret.txt",
        "//etc/passwd",
        "/assets/%00",
        "/assets/..\\..\\secret.txt",
    ],
)
async def test_no_path_leads_out_of_the_page(setting: Setting, path: str) -> None:
    from yarl import URL

    async with setting.session.get(URL(setting.dashboard.url + path, encoded=True)) as answer:
        text = await answer.text()
    assert "secret of the machine" not in text
    assert "root:" not in text


@pytest.mark.parametrize("name", ["../../../api/v1/secrets", "a/b", "a?b=c", "a%2fb", "a b", "", ".", "..", "x" * 300])
async def test_names_that_would_be_other_paths_are_refused(setting: Setting, name: str) -> None:
    browser = setting.browser()
    await browser.sign_in(code=setting.dashboard.link().partition("#code=")[2])
    for path, body in (
        ("/api/queue", {"name": name, "spec": "weight: 2"}),
        ("/api/node", {"name": name, "cordon": True}),
        ("/api/job", {**REF, "name": name, "action": "delete"}),
    ):
        assert (await browser.call("POST", path, body)).status == 400
    async with setting.session.get(
        f"{browser.url}/api/object",
        params={"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": name},
        headers={"X-Unisono-Key": browser.key},
        cookies=browser.cookies,
    ) as answer:
        assert answer.status == 400


async def test_a_body_that_is_too_large_is_refused(setting: Setting) -> None:
    body = {"code": "x" * (2 << 20)}
    try:
        reply = await setting.browser().call("POST", "/api/session", body)
    except aiohttp.ClientConnectionError:
        return  # it does not even listen to the end
    assert reply.status == 413


async def test_a_server_that_stops_signs_no_page_out(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unisono.dashboard.http.actions.LOOK_SECONDS", 0.01)
    browser = setting.browser()
    await browser.sign_in(code=setting.dashboard.link().partition("#code=")[2])
    told = []
    with suppress(aiohttp.ClientError):
        async for event, data in browser.events("/api/views/jobs"):
            told.append(event)
            if event != "reading" and data.get("ready"):
                stopping = asyncio.create_task(setting.dashboard.stop())
        await stopping
    assert "refused" not in told


async def test_signing_out_ends_open_views(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unisono.dashboard.http.actions.LOOK_SECONDS", 0.01)
    browser = setting.browser()
    await browser.sign_in(code=setting.dashboard.link().partition("#code=")[2])
    told = []
    async for event, data in browser.events("/api/views/jobs"):
        told.append(event)
        if event != "reading" and data.get("ready"):
            assert (await browser.call("DELETE", "/api/session")).status == 200
    assert told[-1] == "refused"


# ---- how much they may ask for


async def test_views_that_were_left_count_no_more(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unisono.dashboard.http.actions.LOOK_SECONDS", 0.01)
    monkeypatch.setattr("unisono.dashboard.http.app.MOST_STREAMS", 3)
    browser = setting.browser()
    await browser.sign_in(code=setting.dashboard.link().partition("#code=")[2])
    for letter in "abcdefgh":
        # As a page does at every key that is pressed in its search.
        while (await browser.call("GET", f"/api/views/jobs?q={letter}")).status == 429:
            await asyncio.sleep(0.01)


async def test_more_views_than_a_browser_needs_are_refused(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unisono.dashboard.http.app.MOST_STREAMS", 2)
    browser = setting.browser()
    await browser.sign_in(code=setting.dashboard.link().partition("#code=")[2])
    async with AsyncExitStack() as stack:
        told = []
        for _ in range(3):
            url, headers = f"{browser.url}/api/views/jobs", {"X-Unisono-Key": browser.key}
            answer = await stack.enter_async_context(setting.session.get(url, headers=headers, cookies=browser.cookies))
            told.append(answer.status)
    assert told == [200, 200, 429]


async def test_a_user_asks_one_question_at_a_time_and_few_users_wait() -> None:
    turns, order = Turns(most=2), []
    goes_on = asyncio.Event()

    async def ask(user: str) -> None:
        async with turns.taken(user):
            order.append(user)
            await goes_on.wait()

    first, second = asyncio.create_task(ask("ann")), asyncio.create_task(ask("bob"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for user, why in (("ann", "one question at a time"), ("bob", "one question"), ("cem", "too many others")):
        with pytest.raises(ApiError, match=why) as found:
            async with turns.taken(user):
                pass
        assert found.value.code == 429
    assert order == ["ann"]
    goes_on.set()
    await asyncio.gather(first, second)
    assert order == ["ann", "bob"]
    async with turns.taken("ann"):
        pass


async def test_a_question_that_failed_is_open_no_more() -> None:
    turns = Turns()
    with pytest.raises(ValueError, match="broke"):
        async with turns.taken("ann"):
            raise ValueError("broke")
    async with turns.taken("ann"):
        pass


@pytest.mark.parametrize(
    "changes",
    [
        "nodes:\n- {name: new, count: 1000000000, cpu: 1}\n",
        "nodes:\n- {name: new, count: -1, cpu: 1}\n",
        "a: &a [x]\nb: &b [*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c]\n",
        "!!python/object/apply:os.system ['true']\n",
        "- [" * 3000,
        "kind: Queue\n",
        "[]",
        "x: 1\n---\n" * 3000,
    ],
)
async def test_questions_that_would_cost_too_much_or_are_none_are_refused(setting: Setting, changes: str) -> None:
    browser = setting.browser()
    await browser.sign_in(code=setting.dashboard.link().partition("#code=")[2])
    reply = await browser.call("POST", "/api/whatif", {"changes": changes})
    assert (reply.status, bool(reply.json()["error"])) == (400, True), reply.text
