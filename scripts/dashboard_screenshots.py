"""Pictures of every page of the dashboard, light and dark, for ``docs/dashboard.md``.

``python scripts/dashboard_screenshots.py`` needs the built page, Playwright and Chromium. It starts a control plane of
its own with simulated nodes, and ends it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dashboard_world as world
import yaml

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
_JOB = "/job/batch.volcano.sh%2Fv1alpha1/Job/default/"
# Name, address, and a text that is there when the page is.
PAGES = (
    ("overview", "/overview", "Queue is at its limit"),
    ("jobs", "/jobs", "mixture-of-experts"),
    ("job", f"{_JOB}reward-model", "Raise the capability"),
    ("pods", f"{_JOB}llama-pretraining", "h100-rack1-0"),
    ("queues", "/queues?edit=llm", "spec, as YAML"),
    ("nodes", "/nodes?q=rack&node=h100-rack3-0", "Who holds what"),
    ("whatif", "/whatif", "Changes"),
    ("usage", "/usage", "Jobs of this time"),
    ("scheduler", "/scheduler", "plug-in"),
)
# At a hub.
HUB_PAGES = (("fleet", "/fleet", "in none of them"),)
_PATIENCE_SECONDS = 180.0


def main() -> int:
    """Take all pictures; 1 where something is missing."""
    program = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)
    if program is None:
        print("Pictures need Chromium: apt-get install chromium", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "nodes.yaml").write_text(yaml.safe_dump(world.NODES))
        _unisono(home, "up", "--detach", "--nodes", str(home / "nodes.yaml"))
        try:
            _apply(home, world.text(world.objects()))
            _wait(home, lambda told: told.count("running") >= 6 or "Running  6 jobs" in told)
            _apply(home, world.text(world.late_objects()))
            _wait(home, lambda told: "Waiting  7 jobs" in told)
            _shoot(home, program, PAGES)
        finally:
            _unisono(home, "down", "--kill-pods")
        _shoot_fleet(home / "hub", program)
    return 0


def _shoot_fleet(home: Path, program: str) -> None:
    """A hub with two members that are control planes of their own, and a job that none of them has room for."""
    home.mkdir()
    _unisono(home, "up", "--detach", "--fleet")
    try:
        for member, nodes in world.MEMBERS.items():
            (home / f"{member}.yaml").write_text(yaml.safe_dump(nodes))
            _unisono(home, "fleet", "embed", member, "--nodes", str(home / f"{member}.yaml"), "--region", "eu-north")
        _apply(home, world.text(world.hub_objects()))
        _wait(home, lambda told: "Running  2 jobs" in told or told.count("running") >= 2)
        _shoot(home, program, HUB_PAGES)
    finally:
        for member in world.MEMBERS:
            _unisono(home, "fleet", "leave", member)
        _unisono(home, "down", "--kill-pods")


def _unisono(home: Path, *words: str, given: str = "") -> str:
    environment = {**os.environ, "HOME": str(home)}
    command = [sys.executable, "-m", "unisono", *words, "--data-dir", str(home / "data")]
    done = subprocess.run(command, input=given, capture_output=True, text=True, env=environment, check=True)
    return done.stdout


def _apply(home: Path, text: str) -> None:
    _unisono(home, "apply", "-f", "-", given=text)


def _wait(home: Path, there: Callable[[str], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not there(told := _unisono(home, "status")):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the cluster did not come to be as the pictures show it:\n{told}")
        time.sleep(1)


def _shoot(home: Path, program: str, pages: Sequence[tuple[str, str, str]]) -> None:
    from playwright.sync_api import sync_playwright

    told = _unisono(home, "dashboard", "--no-browser")
    link = next(word for word in told.split() if "#code=" in word)
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=[*flags, "--disable-dev-shm-usage"])
        page = browser.new_page(viewport={"width": 1200, "height": 750})
        page.set_default_timeout(1000 * _PATIENCE_SECONDS)
        page.goto(link)
        page.get_by_role("heading", name="Overview").wait_for()
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            for name, path, text in pages:
                _picture(page, link.partition("/#")[0] + path, text, IMAGES / f"dashboard-{name}-{theme}.png")
        browser.close()


def _picture(page: Any, address: str, text: str, file: Path) -> None:
    page.goto(address)
    page.get_by_text(text).first.wait_for()
    if "/whatif" in address:
        page.get_by_label("More nodes").fill("6")
        page.get_by_role("button", name="More nodes").click()
        page.get_by_role("button", name="Simulate").click()
        page.get_by_text("In the next").wait_for()
    page.get_by_text("Trying on a copy").wait_for(state="detached")
    page.wait_for_timeout(1500)  # charts and bars have come to rest
    page.screenshot(path=file)
    print(file.relative_to(ROOT))


if __name__ == "__main__":
    sys.exit(main())
