"""Every page, wide and narrow, before objects that make no sense: it says what it can, and never breaks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support import chromium
from support.dashboards import Setting, running
from unisono.api.annotations import VERDICT

pytestmark = [
    pytest.mark.more,
    pytest.mark.processes,
    pytest.mark.skipif(bool(chromium.missing()), reason=chromium.missing() or "can run"),
]

SIXTY = "a123456789-b123456789-c123456789-d123456789-e123456789-f1234"
SCHEDULING = "/apis/scheduling.volcano.sh/v1beta1"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/team/jobs"
# As annotations of PodGroups, which every user may write.
VERDICTS = {
    "no-json": "{never closed",
    "another-type": json.dumps({"cause": 7, "need": "much"}),
    "a-list": "[1, 2]",
    "a-number": "1e400",
    "negative": json.dumps({"cause": "NodesFull", "need": {"cpu": -1}, "have": {"cpu": -(10**15)}, "nodes": -5}),
    "unknown": json.dumps({"cause": "FromTheFuture", "message": "", "change": {"kind": "Odd", "count": "x"}}),
    "huge": json.dumps({"cause": "NodesFull", "message": "x" * 5000, "need": {"cpu": 10**17}, "position": 10**9}),
    "empty": "",
}
# What is created, each by its path; what the API refuses is not there.
OBJECTS: list[tuple[str, dict[str, Any]]] = [
    (f"{SCHEDULING}/queues", {"metadata": {"name": SIXTY}, "spec": {"weight": 1, "deserved": {"cpu": "70e12"}}}),
    (f"{SCHEDULING}/queues", {"metadata": {"name": "nothing"}, "spec": {}}),
    (f"{SCHEDULING}/queues", {"metadata": {"name": "child"}, "spec": {"parent": SIXTY}}),
    ("/api/v1/nodes", {"metadata": {"name": "bare"}}),
    ("/api/v1/nodes", {"metadata": {"name": "no-room"}, "status": {"allocatable": {"cpu": "0", "memory": "0"}}}),
    ("/api/v1/nodes", {"metadata": {"name": SIXTY}, "status": {"allocatable": {"cpu": "1", "nvidia.com/gpu": "4000"}}}),
    (
        "/api/v1/nodes",
        {
            "metadata": {"name": "odd", "labels": {"nvidia.com/gpu.product": SIXTY}, "annotations": {"x": "\u202e"}},
            "spec": {"unschedulable": True},
            "status": {"allocatable": {"example.com/odd": "3", "nvidia.com/gpu": "0"}, "conditions": []},
        },
    ),
    (
        "/api/v1/namespaces/team/pods",
        {
            "metadata": {"name": "alone", "annotations": {"scheduling.k8s.io/group-name": "nowhere"}},
            "spec": {"containers": [{"name": "c", "image": "i"}], "schedulerName": "volcano"},
        },
    ),
]
PATHS = [
    ("/overview", "What waits, and why"),
    ("/jobs?state=all", "jobs of"),
    ("/queues", SIXTY[:20]),
    (f"/queues?edit={SIXTY}", "spec, as YAML"),
    ("/nodes", "4 nodes of 4"),
    (f"/nodes?node={SIXTY}", "Cordon"),
    ("/whatif", "Nothing is changed"),
    ("/usage", "Usage"),
    ("/scheduler", "Scheduler"),
    ("/fleet", "There is no member"),
    *((f"/job/batch.volcano.sh%2Fv1alpha1/Job/team/{name}", f"Job {name}") for name in VERDICTS),
    *(
        (f"/job/batch.volcano.sh%2Fv1alpha1/Job/team/huge?tab={tab}", "Job huge")
        for tab in ("events", "yaml", "logs", "odd")
    ),
    ("/job/v1/Pod/team/alone", "Pod alone"),
    ("/job/odd/Odd/team/x", "Odd x"),
    ("/job/only", "no such page"),
    ("/jobs?sort=odd&state=odd&queue=odd", "No job fits"),
    ("/jobs?offset=999999", "jobs of"),
    ("/usage?range=odd&by=odd", "Usage"),
    ("/nowhere", "no such page"),
]


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncIterator[Setting]:
    async with running(tmp_path) as found:
        await found.put("/api/v1/namespaces", metadata={"name": "team"})
        for path, body in OBJECTS:
            await found.put(path, **body)
        for name, verdict in VERDICTS.items():
            job = await found.job("team", name, queue="child")
            group = f"{SCHEDULING}/namespaces/team/podgroups/{name}-{job['metadata']['uid']}"
            await found.patch(group, {"metadata": {"annotations": {VERDICT: verdict}}, "status": {"phase": "Pending"}})
            state = {"phase": "Restarting", "lastTransitionTime": "1970-01-01T00:00:00Z", "message": "x" * 3000}
            await found.patch(f"{JOBS}/{name}/status", {"status": {"state": state}})
            status = {"phase": "Unknown", "startTime": "9999-12-31T23:59:59Z", "containerStatuses": []}
            await found.patch(f"/api/v1/namespaces/team/pods/{name}-worker-0/status", {"status": status})
        yield found


def visited(url: str, link: str) -> list[str]:
    """What is wrong, of all pages in all widths."""
    wrong = []
    with chromium.browser() as browser, chromium.tab(browser) as page:
        page.set_default_timeout(30_000)
        page.goto(link)
        page.get_by_role("heading", name="Overview").wait_for()
        for width in (1200, 400):
            page.set_viewport_size({"width": width, "height": 700})
            for path, text in PATHS:
                page.goto(url + path)
                page.get_by_text(text).first.wait_for()
                wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
                told = page.locator("#app").inner_text()
                wrong += [f"{path} is {wide} pixels too wide at {width}"] if wide > 0 else []
                odd = ("NaN", "undefined", "[object", "Infinity", "null", "Invalid Date")
                wrong += [f"{path} says {each} at {width}" for each in odd if each in told]
    return wrong


async def test_no_page_breaks_by_an_object_that_makes_no_sense(setting: Setting) -> None:
    assert await asyncio.to_thread(visited, setting.dashboard.url, setting.dashboard.link()) == []
