"""A dashboard before an embedded API server, with and without two teams."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.dashboards import Setting, running


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncIterator[Setting]:
    page = tmp_path / "page"
    (page / "assets").mkdir(parents=True)
    (page / "index.html").write_text("<!doctype html><title>page</title>")
    (page / "assets" / "app.js").write_text("1")
    (tmp_path / "secret.txt").write_text("secret of the machine")
    async with running(tmp_path, page=page) as found:
        yield found


@pytest.fixture
async def two_teams(setting: Setting) -> Setting:
    """Namespaces a and b, each with a job that is named after it."""
    await setting.put("/apis/scheduling.volcano.sh/v1beta1/queues", metadata={"name": "team"}, spec={"weight": 1})
    for namespace in ("team-a", "team-b"):
        await setting.put("/api/v1/namespaces", metadata={"name": namespace})
        await setting.job(namespace, f"only-{namespace}")
    return setting
