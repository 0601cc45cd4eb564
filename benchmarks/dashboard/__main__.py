"""``python -m benchmarks.dashboard [--jobs N --pods N --nodes N --viewers N] [--data-dir DIR] [--no-browser]``.

An API server with that many objects, and the dashboard before it, each in a process of its own. Viewers are streams as
pages open them; what a person sees is measured in Chromium, where Playwright and the page are there.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.dashboard.plane import NAMESPACE_COUNT, namespace_of, waits
from benchmarks.dashboard.viewers import Viewer, administrator, percentile, token_of
from benchmarks.e2e.processes import cpu_seconds
from unisono.api.annotations import VERDICT
from unisono.api.verdict import Verdict, encode
from unisono.dashboard.codes import leave_code
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import load

_PATIENCE = 900.0
_TIMES = 5
_FILTERS = (
    "q=train-77",
    "queue=queue-3",
    "state=waiting&sort=-created",
    "namespace=team-4&q=77",
    "sort=name&offset=5000",
)


class Rows(list[tuple[str, str]]):
    """What was measured; each row is shown at once, as the whole takes minutes."""

    def add(self, name: str, text: str) -> None:
        """Keep and show one."""
        self.append((name, text))
        print(f"{name}: {text}", file=sys.stderr, flush=True)


def main() -> int:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(prog="benchmarks.dashboard", description="Measures the dashboard.")
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--viewers", type=int, default=20)
    parser.add_argument("--changes", type=int, default=30, help="changes that are timed")
    parser.add_argument("--data-dir", type=Path, help="keep the objects there, and use them the next time")
    parser.add_argument("--no-browser", action="store_true")
    parser.add_argument("--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = options.data_dir or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        rows = asyncio.run(measure(folder, options))
    if options.output == "json":
        print(json.dumps(dict(rows), indent=2))
        return 0
    what = f"{options.jobs:,} jobs, {options.pods:,} pods, {options.nodes:,} nodes"
    table = Table("What", "Measured", title=f"Dashboard before {what}")
    for row in rows:
        table.add_row(*row)
    Console().print(table)
    return 0


async def measure(folder: Path, options: argparse.Namespace) -> Rows:
    """Everything, in order."""
    (folder / "kubeconfig").unlink(missing_ok=True)
    counts = [str(each) for each in (options.jobs, options.pods, options.nodes)]
    plane = subprocess.Popen([sys.executable, "-m", "benchmarks.dashboard.plane", str(folder), *counts])
    dashboard: subprocess.Popen[bytes] | None = None
    try:
        await _appears(folder / "kubeconfig", plane)
        dashboard, url = await _dashboard(folder)
        return await _measure(folder, url, dashboard.pid, options)
    finally:
        for process in (dashboard, plane):
            if process is not None:
                process.terminate()
                process.wait()


async def _measure(folder: Path, url: str, pid: int, options: argparse.Namespace) -> Rows:
    rows = Rows()
    rows.add("memory of the server, no viewer", _mib(pid))
    admin = HttpClient(load(folder / "kubeconfig"))
    everyone: list[Viewer] = []
    try:
        first = await Viewer.signed_in(url, code=leave_code(folder / "codes"))
        everyone.append(first)
        began, cpu = time.perf_counter(), cpu_seconds(pid)
        soon = await first.first_rows("/api/views/jobs?state=live")
        rows.add("first rows of jobs, first viewer", f"{soon:.1f} s, {cpu_seconds(pid) - cpu:.1f} s CPU")
        await first.view("/api/views/jobs?state=live")
        took = time.perf_counter() - began
        rows.add("cluster read, first viewer", f"{took:.1f} s, {cpu_seconds(pid) - cpu:.1f} s CPU")
        rows.add("memory of the server, one viewer of everything", _mib(pid))
        await _views(rows, first, pid)
        await _changes(rows, admin, [first], pid, options, "1 page")
        other = await Viewer.signed_in(url, token=await administrator(admin))
        everyone.append(other)
        cpu = cpu_seconds(pid)
        await other.view("/api/views/jobs?state=live")
        rows.add("memory of the server, a second viewer of everything, with credentials of its own", _mib(pid))
        rows.add("CPU of the second viewer of everything", f"{cpu_seconds(pid) - cpu:.1f} s")
        pages = [first, *[await first.another() for _ in range(options.viewers - 1)]]
        everyone += pages[1:]
        await _changes(rows, admin, pages, pid, options, f"{len(pages)} pages of one user")
        rows.add(f"memory of the server, {len(pages)} pages of one user", _mib(pid))
        tokens = [await token_of(admin, f"team-{number % NAMESPACE_COUNT}") for number in range(options.viewers)]
        users = [await Viewer.signed_in(url, token=token) for token in tokens]
        everyone += users
        await asyncio.gather(*(each.view("/api/views/jobs?state=live") for each in users))
        who = f"{len(users)} users of one namespace each"
        rows.add(f"memory of the server, and {who}", _mib(pid))
        await _changes(rows, admin, users, pid, options, who)
        if not options.no_browser:
            for row in await asyncio.to_thread(seen_in_chromium, url, folder / "codes", options.jobs):
                rows.add(*row)
    finally:
        for each in everyone:
            await each.close()
        await admin.close()
    return rows


async def _views(rows: Rows, viewer: Viewer, pid: int) -> None:
    for name, path in (
        ("jobs", "/api/views/jobs?state=live"),
        ("overview", "/api/views/overview"),
        ("queues", "/api/views/queues"),
        ("nodes", "/api/views/nodes"),
        ("a job", "/api/views/job?" + _job(7)),
    ):
        cpu = cpu_seconds(pid)
        times = [await viewer.first_view(path) for _ in range(_TIMES)]
        cost = (cpu_seconds(pid) - cpu) / _TIMES
        rows.add(f"first view of {name}, median of {_TIMES}; CPU of one", f"{_ms(percentile(times, 0.5))}; {_ms(cost)}")
    cpu = cpu_seconds(pid)
    times = [await viewer.first_view(f"/api/views/jobs?{each}") for each in _FILTERS for _ in range(4)]
    cost = (cpu_seconds(pid) - cpu) / len(times)
    told = ", ".join(_ms(percentile(times, part)) for part in (0.5, 1.0))
    rows.add("filter, search or sort of jobs: median, worst of 20; CPU of one", f"{told}; {_ms(cost)}")


async def _changes(
    rows: Rows, admin: HttpClient, viewers: list[Viewer], pid: int, options: argparse.Namespace, who: str
) -> None:
    """How long a change takes to the pages that show it, and what a page costs that waits."""
    streams = [asyncio.create_task(each.follow("/api/views/jobs?state=waiting")) for each in viewers]
    await asyncio.gather(*(each.shows for each in viewers))
    began, cpu = time.perf_counter(), cpu_seconds(pid)
    await asyncio.sleep(5)
    idle = (cpu_seconds(pid) - cpu) / (time.perf_counter() - began)
    cpu = cpu_seconds(pid)
    times = []
    # The oldest that wait are shown to every user with the rights to see them.
    for number in [number for number in range(options.jobs) if waits(number)][: options.changes]:
        namespace, mark = namespace_of(number), f"change {time.monotonic_ns()}"
        told = [each.expect(mark) for each in viewers if each.sees(namespace)]
        at = time.perf_counter()
        note = encode(Verdict(cause="NodesFull", message=mark))
        body = json.dumps({"metadata": {"annotations": {VERDICT: note}}}).encode()
        path = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups/train-{number}"
        status, _, answer = await admin.request("PATCH", path, body=body, content_type="application/merge-patch+json")
        assert status == 200, answer
        async with asyncio.timeout(60):
            times += [each - at for each in await asyncio.gather(*told)]
        await asyncio.sleep(0.2)
    cost = (cpu_seconds(pid) - cpu) / options.changes
    for stream in streams:
        stream.cancel()
    await asyncio.gather(*streams, return_exceptions=True)
    told_times = ", ".join(_ms(percentile(times, part)) for part in (0.5, 0.95, 1.0))
    rows.add(f"change visible, {who}: median, 95 %, worst", told_times)
    rows.add(f"CPU of the server, {who}: while nothing changes; of one change", f"{100 * idle:.0f} %; {_ms(cost)}")


def _job(number: int) -> str:
    return f"apiVersion=batch.volcano.sh/v1alpha1&kind=Job&namespace={namespace_of(number)}&name=train-{number}"


async def _dashboard(folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    """A dashboard as ``unisono up`` starts it."""
    import socket

    bound = socket.create_server(("127.0.0.1", 0))
    bound.set_inheritable(True)
    words = [str(bound.fileno()), str(folder / "kubeconfig"), str(folder / "codes")]
    process = subprocess.Popen(
        [sys.executable, "-m", "unisono.dashboard.process", *words], stdin=subprocess.PIPE, pass_fds=[bound.fileno()]
    )
    url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    bound.close()
    await asyncio.sleep(2)
    return process, url


async def _appears(file: Path, process: subprocess.Popen[bytes]) -> None:
    async with asyncio.timeout(_PATIENCE):
        while not file.exists():
            if process.poll() is not None:
                raise RuntimeError(f"the API server ended with {process.returncode}")
            await asyncio.sleep(0.2)


def _mib(pid: int) -> str:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return f"{int(line.split()[1]) / 1024:.0f} MiB"
    return "?"


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms"


# What a person sees, in a real Chromium.


_TIMES = 5


def seen_in_chromium(url: str, codes: Path, jobs: int) -> list[tuple[str, str]]:
    """Times from an address, a key or a click to what it shows, and the heap of the page."""
    program = next(
        (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
    )
    if importlib.util.find_spec("playwright") is None or program is None:
        return [("in Chromium", "needs Playwright and Chromium: make frameworks, apt-get install chromium")]
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=[*flags, "--disable-dev-shm-usage"])
        try:
            page = browser.new_page()
            page.set_default_timeout(120_000)
            page.goto(f"{url}/#code={leave_code(codes)}")
            page.get_by_role("heading", name="Overview").wait_for()
            return _measure(page, url, jobs)
        finally:
            browser.close()


def _measure(page: Any, url: str, jobs: int) -> list[tuple[str, str]]:
    rows = []
    for name, path, shown in (
        ("overview", "/overview", "text=What waits, and why"),
        ("jobs", "/jobs", "table[aria-label=Jobs] tbody td a"),
        ("queues", "/queues", "table[aria-label=Queues] tbody td a"),
        ("nodes", "/nodes", ".cell"),
    ):
        times = [
            _until(page, lambda path=path: page.goto(url + path, wait_until="commit"), shown) for _ in range(_TIMES)
        ]
        rows.append(
            (f"in Chromium: first view of {name}, from the address, median of {_TIMES}", _ms(percentile(times, 0.5)))
        )
    page.goto(f"{url}/jobs")
    page.locator("table[aria-label=Jobs] tbody td a").first.wait_for()
    box, times = page.get_by_role("searchbox"), []
    for number in (1234, 777, 4242, 9001, 55):
        name = f"train-{number % jobs}"
        times.append(_until(page, lambda name=name: box.fill(name), f"a:text-is('{name}')"))
        box.fill("")
        page.get_by_text("jobs of").wait_for()
        page.wait_for_timeout(300)
    rows.append((f"in Chromium: search of jobs, median of {len(times)}", _ms(percentile(times, 0.5))))
    session = page.context.new_cdp_session(page)
    page.goto(f"{url}/jobs?state=all")
    page.locator("table[aria-label=Jobs] tbody td a").first.wait_for()
    for _ in range(30):
        page.mouse.move(600, 400)
        page.mouse.wheel(0, 20_000)
        page.wait_for_timeout(100)
    session.send("HeapProfiler.collectGarbage")
    heap = session.send("Runtime.getHeapUsage")["usedSize"]
    nodes = page.evaluate("document.getElementsByTagName('*').length")
    rows.append(("in Chromium: heap after scrolling through all jobs", f"{heap / 1e6:.1f} MB, {nodes:,} elements"))
    return rows


def _until(page: Any, act: Any, shown: str) -> float:
    began = time.perf_counter()
    act()
    page.locator(shown).first.wait_for()
    return time.perf_counter() - began


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms"


if __name__ == "__main__":
    sys.exit(main())
