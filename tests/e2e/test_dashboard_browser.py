"""The dashboard as a person uses it, in a real browser before a real control plane."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from support import chromium
from support.plane import REPOSITORY, RunningPlane, unisono, wait_until
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import load

pytestmark = [
    pytest.mark.more,
    pytest.mark.processes,
    pytest.mark.skipif(bool(chromium.missing()), reason=chromium.missing() or "can run"),
]

AXE = REPOSITORY / "src/unisono/dashboard/page/node_modules/axe-core/axe.min.js"
WORK = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: narrow}
spec: {weight: 1, capability: {cpu: 100m}}
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: gang}
spec:
  queue: narrow
  minAvailable: 2
  tasks:
  - name: worker
    replicas: 2
    template:
      spec:
        containers:
        - name: main
          image: any
          command: [sh, -c]
          args: ['n=0; while true; do n=$((n+1)); echo "line $n <img src=x onerror=alert(1)>"; sleep 0.2; done']
          resources: {requests: {cpu: 100m}}
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: j123456789-123456789-123456789-123456789-1234567
  annotations: {note: "<script>window.owned = 1</script>"}
  labels: {odd: onload.owned}
spec:
  queue: narrow
  minAvailable: 1000
  tasks:
  - name: worker
    replicas: 1000
    template: {spec: {containers: [{name: main, image: any, resources: {requests: {cpu: 1}}}]}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: viewer, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: sees-all}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: sees-all}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: sees-all}
subjects: [{kind: ServiceAccount, name: viewer, namespace: default}]
"""


LATER = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: closed-in}
spec: {weight: 1, capability: {cpu: 10m}}
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: later}
spec:
  queue: closed-in
  minAvailable: 2
  tasks:
  - name: worker
    replicas: 2
    template:
      spec:
        containers:
        - {name: main, image: any, command: [sleep, "600"], resources: {requests: {cpu: 20m}}}
"""
PAYLOADS = (
    "<script>window.owned = 1</script>",
    "<img src=x onerror='window.owned = 1'>",
    "<svg/onload=window.owned=1>",
    "<iframe srcdoc='<script>parent.owned = 1</script>'></iframe>",
    "<a href='javascript:window.owned=1'>click</a>",
    '"><body onload=window.owned=1>',
    "{{constructor.constructor('window.owned=1')()}}",
    "</textarea></pre><script>window.owned = 1</script>",
    "&lt;script&gt;window.owned = 1&lt;/script&gt;",
)


def hostile_events(plane: RunningPlane) -> None:
    """Events about the gang with payloads as their messages, as any user of the namespace may write them."""

    async def send() -> None:
        client = HttpClient(load(plane.kubeconfig))
        try:
            path = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs/gang"
            job = json.loads((await client.request("GET", path))[2])
            about = {"kind": "Job", "name": "gang", "namespace": "default", "uid": job["metadata"]["uid"]}
            for number, payload in enumerate(PAYLOADS):
                body = {
                    "apiVersion": "v1",
                    "kind": "Event",
                    "metadata": {"name": f"hostile-{number}"},
                    "involvedObject": about,
                    "message": payload,
                    "reason": payload,
                    "type": "Warning",
                }
                status, _, answer = await client.request(
                    "POST", "/api/v1/namespaces/default/events", body=json.dumps(body).encode()
                )
                assert status == 201, answer
        finally:
            await client.close()

    asyncio.run(send())


def hostile_texts_are_texts(page: Any, dashboard: chromium.Dashboard) -> None:
    page.goto(f"{dashboard.url}/job/batch.volcano.sh%2Fv1alpha1/Job/default/gang?tab=events")
    # They were written while it waited.
    page.get_by_text("from before its pods were placed").click()
    for payload in PAYLOADS:
        page.get_by_role("cell", name=payload, exact=True).first.wait_for()
    page.goto(f"{dashboard.url}/job/batch.volcano.sh%2Fv1alpha1/Job/default/gang?tab=logs&pod=%3Cimg%20src=x%3E")
    page.get_by_role("log").wait_for()
    assert page.evaluate("window.owned") is None
    assert page.locator("#app :is(img, script, iframe, svg, [onload], [onerror], [href^='javascript:'])").count() == 0


def token(plane: RunningPlane, account: str) -> str:
    async def ask() -> str:
        client = HttpClient(load(plane.kubeconfig))
        body = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}).encode()
        path = f"/api/v1/namespaces/default/serviceaccounts/{account}/token"
        try:
            _, _, answer = await client.request("POST", path, body=body)
        finally:
            await client.close()
        return str(json.loads(answer)["status"]["token"])

    return asyncio.run(ask())


def is_accessible(page: Any) -> None:
    """axe-core finds nothing that a reader could not use."""
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run().then(found => found.violations.map(each => [each.id, each.nodes[0].html]))")
    assert not found, page.url


def line_number(page: Any) -> int:
    found = re.findall(r"line (\d+)", page.get_by_role("log").inner_text())
    return int(found[-1]) if found else 0


@pytest.fixture
def plane(start_plane: Callable[..., RunningPlane]) -> RunningPlane:
    found = start_plane()
    unisono("apply", "-f", "-", "--data-dir", str(found.data_dir), input=WORK)
    return found


def test_a_person_finds_out_why_a_gang_waits_and_starts_it(plane: RunningPlane) -> None:
    viewer = token(plane, "viewer")
    hostile_events(plane)
    dashboard = chromium.Dashboard(plane.data_dir)
    try:
        with chromium.browser() as browser:
            with chromium.tab(browser) as page:
                the_gang_is_started(page, dashboard)
                hostile_texts_are_texts(page, dashboard)
                each_page_can_be_read(page, dashboard)
                a_prediction_comes_true(page, dashboard, plane)
                page.set_viewport_size({"width": 400, "height": 700})
                page.emulate_media(color_scheme="dark")
                a_crowded_page_stays_in_its_frame(page, dashboard)
            with chromium.tab(browser) as page:
                a_viewer_is_refused(page, dashboard, viewer)
            with chromium.tab(browser, color_scheme="dark", viewport={"width": 400, "height": 700}) as page:
                page.goto(dashboard.link)  # it was used
                page.get_by_text("used already").wait_for()
                is_accessible(page)
    finally:
        dashboard.stop()


def test_up_serves_the_page_to_who_has_its_link(start_plane: Callable[..., RunningPlane]) -> None:
    plane = start_plane("--no-agent")
    told = unisono("dashboard", "--no-browser", "--data-dir", str(plane.data_dir)).stdout
    link = next(word for word in told.split() if "#code=" in word)
    with chromium.browser() as browser:
        with chromium.tab(browser) as page:
            page.goto(link)
            page.get_by_text("0 nodes ready").wait_for()
            is_accessible(page)
            page.get_by_role("link", name="Jobs", exact=True).click()
            page.get_by_text("There is no job that you may see").wait_for()
            is_accessible(page)
            page.get_by_role("link", name="Nodes", exact=True).click()
            page.get_by_text("There is no node that you may see").wait_for()
            the_keyboard_alone_leads_everywhere(page)
        with chromium.tab(browser) as page:
            page.goto(link)
            page.get_by_text("used already").wait_for()


def the_keyboard_alone_leads_everywhere(page: Any) -> None:
    """Each page by the Tab key and Enter, with the focus in sight; fields and buttons of a page can be reached, too."""
    for name in ("Queues", "What if", "Usage", "Scheduler", "Overview"):
        reached(page, name)
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
        page.keyboard.press("Enter")
        page.get_by_role("heading", name=name, exact=True).wait_for()
    reached(page, "What if")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="What if", exact=True).wait_for()
    reached(page, "Simulate")
    page.keyboard.press("Enter")
    page.get_by_text("No job waits.").wait_for()
    page.get_by_text("Scheduled with the default configuration").wait_for()
    page.go_back()
    page.get_by_role("heading", name="Overview", exact=True).wait_for()


def reached(page: Any, text: str) -> None:
    """Press the Tab key until the element with this text has the focus."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent.trim()") == text:
            return
    raise AssertionError(f"the Tab key does not lead to {text}")


def the_gang_is_started(page: Any, dashboard: chromium.Dashboard) -> None:
    page.goto(dashboard.link)
    page.get_by_role("heading", name="What waits, and why").wait_for()
    assert "code=" not in page.url
    page.get_by_role("link", name="Jobs", exact=True).click()
    page.get_by_role("searchbox").fill("gang")
    page.get_by_text("1 job of").wait_for()
    assert "q=gang" in page.url
    page.get_by_role("link", name="gang", exact=True).click()
    page.get_by_text("queue narrow has capability cpu 100m").first.wait_for()
    fix = page.get_by_role("article").filter(has_text="raise the capability of queue narrow")
    fix.get_by_text("Preview").click()
    fix.get_by_text("kubectl patch queue.scheduling.volcano.sh/narrow").wait_for()
    fix.get_by_role("button", name="Check").click()
    fix.get_by_text("nothing was changed").wait_for()
    is_accessible(page)
    fix.get_by_role("button", name="Apply").click()
    page.locator("h1 .state-running").wait_for()
    page.get_by_role("link", name="Logs", exact=True).click()
    wait_until("log lines come", lambda: line_number(page))
    seen = line_number(page)
    wait_until("more log lines come", lambda: line_number(page) > seen)
    page.reload()
    wait_until("log lines come after a reload", lambda: line_number(page))
    page.get_by_role("link", name="YAML", exact=True).click()
    page.get_by_text("kind: Job").wait_for()
    page.go_back()
    page.get_by_role("log").wait_for()


def each_page_can_be_read(page: Any, dashboard: chromium.Dashboard) -> None:
    for path, text in (
        ("/overview", "What waits, and why"),
        ("/jobs?state=all", "j123456789"),
        ("/queues?edit=narrow", "spec, as YAML"),
        ("/nodes", "1 node of 1"),
        ("/scheduler", "plug-in"),
        ("/usage?by=job", "default/gang"),
        ("/fleet", "There is no member that you may see"),
        ("/whatif", "Nothing is changed"),
    ):
        page.goto(dashboard.url + path)
        page.get_by_text(text).first.wait_for()
        is_accessible(page)


def a_prediction_comes_true(page: Any, dashboard: chromium.Dashboard, plane: RunningPlane) -> None:
    """What the page says of a change is what happens after it: the large gang waits, and starts with the new limit."""
    unisono("apply", "-f", "-", "--data-dir", str(plane.data_dir), input=LATER)
    page.goto(f"{dashboard.url}/job/batch.volcano.sh%2Fv1alpha1/Job/default/later")
    page.locator("h1 .state-waiting").wait_for()
    page.get_by_text("Queue is at its limit").wait_for()
    page.get_by_role("button", name="Estimate").click()
    page.get_by_text("not within 4 h").wait_for()
    page.goto(f"{dashboard.url}/whatif")
    page.locator("select[name=queue]").select_option("closed-in")
    page.locator("select[name=field]").select_option("capability")
    page.locator("input[name=resource]").fill("cpu")
    page.locator("input[name=value]").fill("1")
    page.get_by_role("button", name="Change queue").click()
    page.get_by_role("button", name="Simulate").click()
    row = page.get_by_role("row").filter(has_text="default/later")
    row.get_by_text("now", exact=False).first.wait_for()
    assert "not within" in row.inner_text()
    assert "1 job sooner" in page.get_by_role("region", name="Answer").first.inner_text()
    page.goto(f"{dashboard.url}/queues?edit=closed-in")
    editor = page.get_by_label("spec, as YAML")
    editor.fill(editor.input_value().replace("cpu: 10m", "cpu: 1"))
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Queue closed-in was changed.").wait_for()
    page.goto(f"{dashboard.url}/job/batch.volcano.sh%2Fv1alpha1/Job/default/later")
    page.locator("h1 .state-running").wait_for()


def a_crowded_page_stays_in_its_frame(page: Any, dashboard: chromium.Dashboard) -> None:
    """Long names and a gang of a thousand neither widen a narrow page nor fill it with elements."""
    key = "j123456789-123456789-123456789-123456789-1234567"
    for path, text in (
        (f"/job/batch.volcano.sh%2Fv1alpha1/Job/default/{key}", "0 of 1,000 placed"),
        (f"/jobs?q={key}", key),
        ("/overview", "What waits, and why"),
        ("/queues", "narrow"),
        ("/nodes", "1 node of 1"),
        ("/usage", "Use by queue"),
    ):
        page.goto(dashboard.url + path)
        page.get_by_text(text).first.wait_for()
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, path
        assert page.evaluate("document.getElementsByTagName('*').length") < 6000, path
    page.goto(f"{dashboard.url}/jobs")
    page.get_by_role("searchbox").wait_for()
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "gang":
            break
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="gang").wait_for()


def a_viewer_is_refused(page: Any, dashboard: chromium.Dashboard, viewer: str) -> None:
    page.goto(f"{dashboard.url}/queues?edit=narrow")
    page.get_by_label("Or a token of the API server").fill(viewer)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("You may not change queues").wait_for()
    page.get_by_label("spec, as YAML").fill("weight: 9")
    page.get_by_role("button", name="Save").click()
    page.get_by_text('cannot patch resource "queues"').wait_for()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("Or a token of the API server").wait_for()


def test_the_page_says_that_its_server_is_gone_and_goes_on_with_the_next(plane: RunningPlane) -> None:
    dashboard = chromium.Dashboard(plane.data_dir)
    try:
        with chromium.browser() as browser, chromium.tab(browser) as page:
            page.goto(dashboard.link)
            page.get_by_role("link", name="Jobs", exact=True).click()
            page.get_by_role("link", name="gang", exact=True).wait_for()
            # What a server says while it stops is not what is shown once it is gone.
            answers = [{"content_type": "text/event-stream", "body": 'event: problem\ndata: "it stops"\n\n'}]
            page.route("**/api/views/**", lambda route: route.fulfill(**answers.pop()) if answers else route.abort())
            page.reload()
            page.get_by_text("The server does not answer").wait_for()
            page.unroute("**/api/views/**")
            page.get_by_role("link", name="gang", exact=True).wait_for()
            dashboard.stop()
            page.get_by_text("The server does not answer").wait_for()
            page.get_by_role("link", name="gang", exact=True).wait_for()
            port = int(dashboard.url.rpartition(":")[2])
            dashboard = chromium.Dashboard(plane.data_dir, port)
            page.get_by_text("signs you in once").wait_for()
            page.goto(dashboard.link)
            page.get_by_role("heading", name="What waits, and why").wait_for()
    finally:
        dashboard.stop()
