"""What a person sees, in a real Chromium."""

from __future__ import annotations

import importlib.util
import os
import shutil
import time
from pathlib import Path
from typing import Any

from benchmarks.dashboard.viewers import percentile
from unisono.dashboard.http.sessions import leave_code

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
