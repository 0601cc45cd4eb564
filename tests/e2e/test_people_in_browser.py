"""On a screen and on a phone a person finds their own jobs, why these wait, and who holds what."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support import chromium
from support.dashboards import Setting, running
from support.plane import REPOSITORY
from unisono.api.annotations import USER, VERDICT
from unisono.api.times import rfc3339
from unisono.api.verdict import Holder, Verdict, encode
from unisono.kube.clock import SYSTEM_CLOCK

pytestmark = [
    pytest.mark.more,
    pytest.mark.processes,
    pytest.mark.skipif(bool(chromium.missing()), reason=chromium.missing() or "can run"),
]

AXE = (REPOSITORY / "src/unisono/dashboard/page/node_modules/axe-core/axe.min.js").read_text
SIZES = ((1440, 900, "light"), (1440, 900, "dark"), (390, 844, "light"), (390, 844, "dark"))
RACKS, NODES_OF_RACK = 8, 25
JOB = "/job/batch.volcano.sh%2Fv1alpha1/Job/team/"
WHY = (
    "queue default has capability nvidia.com/gpu 64, nvidia.com/gpu 64 of it is in use; "
    "nvidia.com/gpu 16 is asked for; team/holder holds nvidia.com/gpu 8; 3rd in queue default, behind team/other"
)
# Each with a text that is there when the page is.
PATHS = {
    "/overview": "Who holds it",
    "/jobs?state=all": "2 jobs of 2",
    "/jobs?user=me&state=all": "1 job of 2",
    f"{JOB}mine-waits": "What it needs",
    f"{JOB}holder": "whole job",
    f"{JOB}holder?tab=events": "from before its pods were placed",
    "/nodes": "rack-0",
    "/nodes?by=user": "rack-0",
    "/nodes?show=time": "go on",
    "/nodes?node=rack-0-1&free=8&model=H100": "nodes of",
    "/queues": "default",
    "/usage": "Usage",
    "/whatif": "Nothing is changed",
    "/scheduler": "Scheduler",
}


async def crowd(setting: Setting) -> None:
    """Two hundred nodes in racks, a job of another user that runs, and one of the viewer's that waits for it."""
    now = SYSTEM_CLOCK.time()
    await setting.put("/api/v1/namespaces", metadata={"name": "team"})
    for rack in range(RACKS):
        match = {"type": "Node", "selector": {"regexMatch": {"pattern": f"^rack-{rack}-"}}}
        spec = {"tier": 1, "members": [match]}
        await setting.put("/apis/topology.volcano.sh/v1alpha1/hypernodes", metadata={"name": f"rack-{rack}"}, spec=spec)
        for number in range(NODES_OF_RACK):
            labels = {"nvidia.com/gpu.product": "H100" if rack % 2 else "A100"}
            name = f"rack-{rack}-{number}"
            await setting.put("/api/v1/nodes", metadata={"name": name, "labels": labels})
            amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "8"}
            ready = [{"type": "Ready", "status": "True", "reason": "", "message": ""}]
            status = {"capacity": amounts, "allocatable": amounts, "conditions": ready}
            await setting.patch(f"/api/v1/nodes/{name}/status", {"status": status})
            await setting.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})
    for name, user in (("holder", "ada"), ("mine-waits", "")):
        job = await setting.job("team", name)
        group = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/team/podgroups/{name}-{job['metadata']['uid']}"
        if user:
            path = f"/apis/batch.volcano.sh/v1alpha1/namespaces/team/jobs/{name}"
            await setting.patch(path, {"metadata": {"annotations": {USER: user}}})
            pod = {"metadata": {"name": "holder-gpu", **(await owned(setting, job, group))}}
            limits = {"requests": {"cpu": "1", "nvidia.com/gpu": "8"}, "limits": {"nvidia.com/gpu": "8"}}
            containers = [{"name": "main", "image": "i", "resources": limits}]
            pod["spec"] = {"nodeName": "rack-0-1", "schedulerName": "volcano", "containers": containers}
            pod["metadata"]["annotations"]["unisono.io/run-seconds"] = "7200"
            await setting.put("/api/v1/namespaces/team/pods", **pod)
            for each in ("holder-gpu",):
                placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": rfc3339(now - 600)}
                status = {"phase": "Running", "startTime": rfc3339(now - 590), "conditions": [placed]}
                await setting.patch(f"/api/v1/namespaces/team/pods/{each}/status", {"status": status})
            about = {"kind": "Job", "name": name, "namespace": "team", "uid": job["metadata"]["uid"]}
            for number, (reason, age) in enumerate((("Unschedulable", 3000), ("Started", 60))):
                await setting.put(
                    "/api/v1/namespaces/team/events",
                    metadata={"name": f"said-{number}"},
                    involvedObject=about,
                    reason=reason,
                    message=f"{reason} it is",
                    type="Normal",
                    lastTimestamp=rfc3339(now - age),
                )
            continue
        verdict = Verdict(
            job=group.rpartition("/")[2],
            cause="OverCapability",
            message=WHY,
            queue="default",
            need={"nvidia.com/gpu": 16_000},
            have={"nvidia.com/gpu": 0},
            holders=(Holder("Job", "team/holder", {"nvidia.com/gpu": 8000}),),
            position=3,
            ahead=("team/other",),
        )
        told = {"metadata": {"annotations": {VERDICT: encode(verdict)}}, "status": {"phase": "Pending"}}
        await setting.patch(group, told)


async def owned(setting: Setting, job: dict[str, Any], group: str) -> dict[str, Any]:
    owner = {"apiVersion": job["apiVersion"], "kind": "Job", "name": job["metadata"]["name"], "controller": True}
    return {
        "ownerReferences": [{**owner, "uid": job["metadata"]["uid"]}],
        "annotations": {"scheduling.k8s.io/group-name": group.rpartition("/")[2]},
        "labels": {"volcano.sh/job-name": job["metadata"]["name"]},
    }


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncIterator[Setting]:
    async with running(tmp_path) as found:
        await crowd(found)
        yield found


def wrong_of(page: Any, where: str) -> list[str]:
    """What a reader could not use, and what does not fit the page."""
    page.evaluate(AXE())
    found = page.evaluate("axe.run().then(found => found.violations.map(each => [each.id, each.nodes[0].html]))")
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return [f"{where}: {each}" for each in found] + ([f"{where} is {wide} pixels too wide"] if wide > 0 else [])


def looked_at(url: str, link: str) -> list[str]:
    wrong = []
    with chromium.browser() as browser, chromium.tab(browser) as page:
        page.set_default_timeout(60_000)
        page.goto(link)
        page.get_by_role("heading", name="My jobs").wait_for()
        for width, height, scheme in (
            (1440, 900, "light"),
            (1440, 900, "dark"),
            (390, 844, "light"),
            (390, 844, "dark"),
        ):
            page.set_viewport_size({"width": width, "height": height})
            page.emulate_media(color_scheme=scheme)
            for path, text in PATHS.items():
                page.goto(url + path)
                page.get_by_text(text).first.wait_for()
                wrong += wrong_of(page, f"{path} at {width}, {scheme}")
                if path == "/nodes" and width > 400:
                    # Only what is held and does nothing is hatched.
                    hatched = page.locator(".cell.idle").first.evaluate("e => getComputedStyle(e).backgroundImage")
                    wrong += [] if hatched == "none" else [f"a free node is drawn with {hatched}"]
                if path == "/nodes":
                    screens = page.evaluate("document.documentElement.scrollHeight") / height
                    wrong += [f"{path} has {screens:.1f} screens at {width}"] if screens >= 5 else []
        a_person_finds_out(page, url)
    return wrong


def a_person_finds_out(page: Any, url: str) -> None:
    """On a phone: the reason in sight, and from there to who holds it."""
    page.goto(f"{url}/overview")
    mine = page.get_by_role("region", name="My jobs")
    mine.get_by_text("Queue is at its limit").wait_for()
    assert "64 GPUs" in mine.inner_text()
    page.goto(f"{url}/jobs")
    reason = page.locator(".under-name").first
    reason.wait_for()
    box = reason.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    assert "Queue is at its limit" in reason.inner_text()
    page.get_by_role("link", name="mine-waits").click()
    held = page.get_by_role("table", name="Who holds it")
    held.get_by_role("link", name="ada").wait_for()
    assert "within" in held.inner_text()
    assert "Place in the line of queue default: 3" in page.locator(".besides").first.inner_text()
    # What was said while it waited is put away once it runs.
    page.goto(f"{url}{JOB}holder?tab=events")
    page.get_by_role("table", name="Events", exact=True).get_by_text("Started it is").wait_for()
    assert not page.get_by_text("Unschedulable it is").is_visible()
    page.get_by_text("1 event from before").click()
    page.get_by_text("Unschedulable it is").wait_for()


async def test_everyone_can_read_every_page_of_a_crowded_cluster(setting: Setting) -> None:
    assert await asyncio.to_thread(looked_at, setting.dashboard.url, setting.dashboard.link()) == []
