"""A session that ends while a page is open: the page says why, keeps its address, and goes on after a sign-in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from support import chromium
from support.dashboards import Setting, running
from unisono.dashboard.server import DashboardServer
from unisono.errors import ApiError

pytestmark = [
    pytest.mark.more,
    pytest.mark.processes,
    pytest.mark.skipif(bool(chromium.missing()), reason=chromium.missing() or "can run"),
]

PATH = "/job/batch.volcano.sh%2Fv1alpha1/Job/team/train?tab=events"
Way = Callable[[Setting], Coroutine[Any, Any, None]]


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncIterator[Setting]:
    async with running(tmp_path) as found:
        await found.put("/api/v1/namespaces", metadata={"name": "team"})
        await found.job("team", "train")
        yield found
        await found.dashboard.stop()  # the one that was restarted


async def the_token_expires(setting: Setting) -> None:
    """The world asks for its rights every half minute, and is told that nobody knows its token."""
    for watched in setting.dashboard.sessions._worlds.open.values():
        watched.world._refused = ApiError("Unauthorized", code=401, reason="Unauthorized")
        watched.world.signal.tell("scope")


async def it_is_ended_elsewhere(setting: Setting) -> None:
    for session in list(setting.dashboard.sessions._sessions.values()):
        setting.dashboard.sessions.end(session)


async def the_server_restarts(setting: Setting) -> None:
    """On the same port, and with nothing that it knew."""
    port = int(setting.dashboard.url.rpartition(":")[2])
    await setting.dashboard.stop()
    setting.dashboard = DashboardServer(setting.admin.config, port=port)
    await setting.dashboard.start()


WAYS: dict[str, tuple[Way, str]] = {
    "the token expires": (the_token_expires, "does not accept your credentials any more (Unauthorized)"),
    "it is ended elsewhere": (it_is_ended_elsewhere, "you were signed out elsewhere"),
    "the server restarts": (the_server_restarts, "the dashboard was restarted"),
}


@pytest.mark.parametrize("case", WAYS)
@pytest.mark.parametrize("way_back", ["a token", "a link in another tab"])
async def test_the_page_says_it_and_goes_on_where_it_was(setting: Setting, case: str, way_back: str) -> None:
    ends, said = WAYS[case]
    token = await setting.account("team", "all", ["get", "list", "watch"], cluster=True)
    loop = asyncio.get_running_loop()

    def on_loop(work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, loop).result(60)

    def used() -> None:
        with chromium.browser() as browser, chromium.tab(browser) as page:
            page.set_default_timeout(30_000)
            page.goto(setting.dashboard.url + PATH)
            page.get_by_label("Or a token of the API server").fill(token)
            page.get_by_role("button", name="Sign in").click()
            page.get_by_role("heading", name="Job train").wait_for()
            page.get_by_text("No events are known").wait_for()
            assert page.get_by_role("alert").count() == 0
            on_loop(ends(setting))
            page.get_by_role("alert").filter(has_text=said).wait_for()
            assert page.url == setting.dashboard.url + PATH
            if way_back == "a token":
                page.get_by_label("Or a token of the API server").fill(token)
                page.get_by_role("button", name="Sign in").click()
            else:
                other = page.context.new_page()
                other.goto(setting.dashboard.link())
                other.get_by_role("heading", name="What waits, and why").wait_for()
            page.get_by_role("heading", name="Job train").wait_for()
            page.get_by_text("No events are known").wait_for()
            assert page.url == setting.dashboard.url + PATH
            page.get_by_role("button", name="Sign out").click()
            page.get_by_label("Or a token of the API server").wait_for()
            # Who ends it is not told so.
            assert page.get_by_role("alert").count() == 0

    await asyncio.to_thread(used)
