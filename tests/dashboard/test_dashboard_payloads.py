"""What users write comes to the page as text: it neither ends an event of a stream, nor becomes markup."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from support.dashboards import Browser, Setting
from support.plane import REPOSITORY
from unisono.api.annotations import VERDICT
from unisono.api.verdict import Verdict, encode
from unisono.dashboard.http.guard import SECURITY_HEADERS

PAGE = REPOSITORY / "src/unisono/dashboard/page/src"
PAYLOADS = [
    "<script>window.owned = 1</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "</textarea><svg/onload=alert(1)>",
    "\n\nevent: refused\ndata: {}\n\n",
    "\r\n\r\ndata: {}\r\r",
    "\u2028\u2029\ufeff",
    "\x1b]8;;https://evil.example\x07click\x1b]8;;\x07",
    "{{constructor.constructor('alert(1)')()}}",
    "__proto__",
    "x" * 20_000,
]


async def looking(setting: Setting) -> Browser:
    browser = setting.browser()
    assert (await browser.sign_in(code=setting.dashboard.link().partition("#code=")[2])).status == 200
    return browser


async def told(browser: Browser, path: str) -> tuple[dict[str, Any], set[str]]:
    """The view, and the names of the events that came."""
    events = set()
    async for event, data in browser.events(path):
        events.add(event)
        if event == "view" and data.get("ready"):
            return data, events
        if event == "change" and data.get("ready"):
            return await browser.view(path), events
    raise AssertionError(f"the stream ended after {events}")


@pytest.mark.parametrize("payload", PAYLOADS)
async def test_what_users_write_is_text_in_every_view(two_teams: Setting, payload: str) -> None:
    name = "only-team-a"
    job = "/apis/batch.volcano.sh/v1alpha1/namespaces/team-a/jobs/" + name
    uid = (await two_teams.admin.request("GET", job))[2]
    found = json.loads(uid)["metadata"]["uid"]
    group = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/team-a/podgroups/{name}-{found}"
    note = encode(Verdict(cause="NodesFull", message=payload, queue=payload[:100]))
    await two_teams.patch(group, {"metadata": {"annotations": {VERDICT: note}}, "status": {"phase": "Pending"}})
    await two_teams.patch(job, {"metadata": {"annotations": {"note": payload, "unisono.io/user": payload}}})
    event = {"metadata": {"name": "e1", "namespace": "team-a"}, "reason": "Odd", "message": payload, "type": "Warning"}
    event["involvedObject"] = {"kind": "Job", "name": name, "namespace": "team-a", "uid": found}
    path = "/api/v1/namespaces/team-a/events"
    status, _, answer = await two_teams.admin.request("POST", path, body=json.dumps(event).encode())
    assert status == 201, answer
    browser = await looking(two_teams)
    view, events = await told(browser, "/api/views/jobs")
    assert events <= {"view", "change", "reading"}
    row = view["rows"][f"jobs.batch.volcano.sh/team-a/{name}"]
    shown = [word for word in payload.split() if word.isprintable()]
    assert all(word[:30] in row["waiting"] for word in shown[:1])
    for other in ("overview", "queues", "nodes", "scheduler", "fleet"):
        _, events = await told(browser, f"/api/views/{other}")
        assert events <= {"view", "change", "reading"}
    query = f"apiVersion=batch.volcano.sh/v1alpha1&kind=Job&namespace=team-a&name={name}"
    reply = await browser.call("GET", f"/api/object?{query}")
    assert reply.headers["Content-Type"].startswith("application/json")
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    assert "note" in reply.json()["message"]


@pytest.mark.parametrize("payload", PAYLOADS)
async def test_what_stands_in_an_address_is_refused_or_found_nowhere(setting: Setting, payload: str) -> None:
    from urllib.parse import quote

    browser = await looking(setting)
    text = quote(payload[:500], safe="")
    view, events = await told(browser, f"/api/views/jobs?q={text}&namespace={text}")
    assert (view.get("matched", 0), events <= {"view", "change", "reading"}) == (0, True)
    reply = await browser.call("GET", f"/api/history/report?by={text}")
    assert (reply.status, reply.headers["Content-Type"].partition(";")[0]) in (
        (400, "application/json"),
        (404, "application/json"),
    )


def test_the_page_makes_no_markup_of_texts() -> None:
    """Preact escapes what it draws; the ways around that are used nowhere, and the policy would stop them."""
    around = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc")
    found = {path.name: around.findall(path.read_text()) for path in PAGE.rglob("*.ts*")}
    assert not {name: each for name, each in found.items() if each}
    policy = SECURITY_HEADERS["Content-Security-Policy"]
    assert "require-trusted-types-for 'script'" in policy
    assert "default-src 'none'" in policy or "default-src 'self'" in policy
