"""A real browser for tests, where the machine has one."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.plane import wait_until
from unisono.dashboard.http.guard import BUILT, is_built

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_MS = 240_000


def missing() -> str:
    """Why no browser can be driven here; empty where one can."""
    if importlib.util.find_spec("playwright") is None:
        return "needs Playwright: make frameworks"
    if chromium() is None:
        return "needs Chromium: apt-get install chromium"
    return "" if is_built(BUILT) else "needs the dashboard's page: make dashboard"


def chromium() -> str | None:
    """The browser's program."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@contextmanager
def browser() -> Iterator[Any]:
    """Chromium without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Its sandbox wants namespaces, which root in a container does not get.
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        found = playwright.chromium.launch(executable_path=chromium(), args=[*flags, "--disable-dev-shm-usage"])
        try:
            yield found
        finally:
            found.close()


@contextmanager
def tab(browser: Any, **options: Any) -> Iterator[Any]:
    """A page with cookies of its own; what it complains of in its console fails the test."""
    context = browser.new_context(**options)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    said: list[str] = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("console", lambda line: said.append(line.text) if "Content Security Policy" in line.text else None)
    try:
        yield page
        assert not said
    finally:
        context.close()


class Dashboard:
    """``unisono dashboard`` in a process of its own."""

    def __init__(self, data_dir: Path, port: int = 0) -> None:
        self._log = data_dir.parent / f"dashboard-{port}.log"
        words = ["dashboard", "--no-browser", "--kubeconfig", str(data_dir / "kubeconfig"), "--port", str(port)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "unisono", *words], stdout=log, stderr=subprocess.STDOUT
            )
        self.link = wait_until("the dashboard gives a link", self._link)
        self.url = self.link.partition("/#")[0]

    def _link(self) -> str:
        words = self._log.read_text().split()
        assert self._process.poll() is None, self._log.read_text()
        return next((word for word in words if "/#code=" in word), "")

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait()
