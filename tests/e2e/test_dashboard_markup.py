"""What users write is text in a real browser: payloads in each place that a page shows, and on each page."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from support import chromium
from support.dashboards import Setting, running
from unisono.api.annotations import VERDICT
from unisono.api.verdict import Verdict, encode
from unisono.sdk.follow.following import LogLine

pytestmark = [
    pytest.mark.more,
    pytest.mark.processes,
    pytest.mark.skipif(bool(chromium.missing()), reason=chromium.missing() or "can run"),
]

PAYLOADS = (
    "<script>window.owned = 1</script>",
    "<img src=x onerror='window.owned = 1'>",
    "<svg/onload=window.owned=1>",
    "<iframe srcdoc='<script>parent.owned = 1</script>'></iframe>",
    "<a href='javascript:window.owned=1'>click</a>",
    '"><body onload=window.owned=1>',
    "' autofocus onfocus='window.owned=1",
    "</textarea></pre></script><script>window.owned = 1</script>",
    "</option></select><details open ontoggle=window.owned=1>",
    "{{constructor.constructor('window.owned=1')()}}${window.owned=1}",
    "&lt;script&gt;window.owned = 1&lt;/script&gt;",
    "<style>@import'//evil.example';*{display:none}</style>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<math><mtext><table><mglyph><style><img src=x onerror=window.owned=1>",
    "javascript:window.owned=1",
    "=cmd|' /C calc'!A0",
)
# Beside the text what only terminals and readers of right-to-left scripts obey.
HIDDEN = {
    "colour \x1b[31;1mred\x1b[0m end": "colour red end",
    "title \x1b]0;owned\x07 end": "title  end",
    "link \x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\ end": "link click end",
    "10 %\r50 %\r100 %": "100 %",
    "moved \x1b[2J\x1b[Hhome": "moved home",
    "user\u202egpj.exe": "usergpj.exe",
    "bell\x07 back\x08 null\x00": "bell back null",
}
JOB = "apiVersion=batch.volcano.sh/v1alpha1&kind=Job&namespace=team&name=train"
PLACE = "/job/batch.volcano.sh%2Fv1alpha1/Job/team/train"
# None of what a payload makes may come of it.
MADE = (
    "#app :is(script, iframe, object, embed, svg, math, style, meta, base, body, [onload], [onerror], [onfocus], "
    "[ontoggle], [srcdoc], [href^='javascript:' i], [src]:not([src^='/assets/']))"
)


async def hostile(setting: Setting) -> None:
    """One job whose every text is the user's, with all payloads in each of its places."""
    every = " ".join(PAYLOADS)
    await setting.put("/api/v1/namespaces", metadata={"name": "team", "annotations": {"note": every}})
    await setting.put(
        "/api/v1/nodes",
        metadata={"name": "n1", "labels": {"x": "onload.owned"}, "annotations": {"note": every}},
        status={"allocatable": {"cpu": "8", "nvidia.com/gpu": "2"}, "conditions": [ready(every)]},
    )
    await setting.put(
        "/apis/scheduling.volcano.sh/v1beta1/queues",
        metadata={"name": "q", "annotations": {"note": every}},
        spec={"weight": 1},
    )
    job = await setting.job("team", "train", queue="q")
    path = "/apis/batch.volcano.sh/v1alpha1/namespaces/team/jobs/train"
    notes = {f"note-{number}": payload for number, payload in enumerate(PAYLOADS)}
    state = {"phase": "Pending", "reason": every, "message": every}
    await setting.patch(path, {"metadata": {"annotations": notes}})
    await setting.patch(f"{path}/status", {"status": {"state": state}})
    uid = job["metadata"]["uid"]
    verdict = Verdict(
        cause="NodesFull",
        message=every,
        queue="q",
        nodes=1,
        reasons=dict.fromkeys(PAYLOADS, 1),
    )
    group = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/team/podgroups/train-{uid}"
    await setting.patch(
        group, {"metadata": {"annotations": {VERDICT: encode(verdict)}}, "status": {"phase": "Pending"}}
    )
    ended = {"terminated": {"exitCode": 1, "reason": PAYLOADS[0], "message": every}}
    container = {"name": "main", "ready": False, "restartCount": 1, "image": "i", "imageID": "", "state": ended}
    pod = "/api/v1/namespaces/team/pods/train-worker-0"
    failed = {"phase": "Failed", "reason": PAYLOADS[1], "message": every, "containerStatuses": [container]}
    await setting.patch(f"{pod}/status", {"status": failed})
    for number, payload in enumerate(PAYLOADS):
        event = {
            "metadata": {"name": f"e{number}", "namespace": "team"},
            "involvedObject": {"kind": "Job", "name": "train", "namespace": "team", "uid": uid},
            "reason": payload[:128],
            "message": payload,
            "type": "Warning",
            "source": {"component": payload},
        }
        body = json.dumps({"apiVersion": "v1", "kind": "Event", **event}).encode()
        status, _, answer = await setting.admin.request("POST", "/api/v1/namespaces/team/events", body=body)
        assert status == 201, answer


def ready(text: str) -> dict[str, str]:
    return {"type": "Ready", "status": "True", "reason": "Odd", "message": text}


@pytest.fixture
async def setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Setting]:
    async def lines(*_: Any) -> AsyncIterator[Any]:
        for text in (*PAYLOADS, *HIDDEN):
            yield LogLine(pod="train-worker-0", task="worker", text=text)
        await asyncio.Event().wait()

    monkeypatch.setattr("unisono.dashboard.http.actions.follow_logs", lines)
    async with running(tmp_path) as found:
        await hostile(found)
        yield found


# The page, what must be there before it is looked at, and a text that users have written and it shows.
PLACES = [
    ("/overview", "What waits, and why", ""),
    ("/jobs?state=all", "train", PAYLOADS[0]),
    (PLACE, "Why it waits", PAYLOADS[0]),
    (f"{PLACE}?tab=events", "Age", PAYLOADS[1]),
    (f"{PLACE}?tab=yaml", "kind: Job", PAYLOADS[2]),
    (f"{PLACE}?tab=logs", "Stay at the end", PAYLOADS[3]),
    ("/queues?edit=q", "spec, as YAML", ""),
    ("/nodes", "1 node of 1", ""),
    ("/whatif", "Nothing is changed", ""),
    ("/usage?by=job", "Usage", ""),
    ("/scheduler", "Scheduler", ""),
    ("/fleet", "Fleet", ""),
]
# Where the address itself is the payload: each page, and all that it reads from there.
ADDRESSES = [
    "/{0}",
    "/jobs?q={0}&queue={0}&namespace={0}&state={0}&sort={0}&kind={0}&cause={0}",
    "/job/{0}/{0}/{0}/{0}",
    PLACE + "?tab={0}",
    PLACE + "?tab=logs&pod={0}&container={0}",
    "/queues?edit={0}&resource={0}&range={0}",
    "/nodes?q={0}&group={0}&model={0}",
    "/usage?by={0}&range={0}",
    "/overview?resource={0}",
    "/#code={0}",
]


def looked_at(url: str, link: str) -> list[str]:
    """Visit everything; answers what went wrong."""
    wrong: list[str] = []
    asked: list[str] = []
    with chromium.browser() as browser, chromium.tab(browser) as page:
        page.set_default_timeout(30_000)
        page.on("request", lambda request: asked.append(request.url))
        page.on("dialog", lambda dialog: (wrong.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.goto(link)
        page.get_by_role("heading", name="What waits, and why").wait_for()

        def judge(where: str) -> None:
            if page.evaluate("window.owned") is not None:
                wrong.append(f"{where}: a script has run")
            if number := page.locator(MADE).count():
                wrong.append(f"{where}: {number} elements: {page.locator(MADE).first.evaluate('e => e.outerHTML')}")
            if not page.url.startswith(url):
                wrong.append(f"{where}: led to {page.url}")

        for path, there, text in PLACES:
            page.goto(url + path)
            page.get_by_text(there).first.wait_for()
            if text:
                page.get_by_text(text).locator("visible=true").first.wait_for()
            judge(path)
            if path.endswith("logs"):
                told = page.get_by_role("log").inner_text()
                wrong += [f"log: {payload}" for payload in PAYLOADS if payload not in told]
                wrong += [f"log: {shown!r}" for shown in HIDDEN.values() if f"| {shown}\n" not in f"{told}\n"]
                wrong += [f"log: {each!r}" for each in re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", told)]
        for number, address in enumerate(ADDRESSES):
            for payload in PAYLOADS[number % 3 :: 3]:
                page.goto(url + address.format(quote(payload, safe="")))
                page.locator("h1").first.wait_for()
                judge(f"{address} {payload}")
    wrong += [f"asked {each}" for each in asked if not each.startswith(url)]
    return wrong


async def test_nothing_that_users_write_becomes_markup(setting: Setting) -> None:
    link = setting.dashboard.link()
    assert await asyncio.to_thread(looked_at, setting.dashboard.url, link) == []
