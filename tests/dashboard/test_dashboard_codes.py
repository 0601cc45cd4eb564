"""One-time codes that are left as files, and the port that is held for the dashboard."""

from __future__ import annotations

import os
from pathlib import Path

import aiohttp
import pytest

from unisono.dashboard.activation import Activation, codes_of, link_of, port_file
from unisono.dashboard.codes import CODE_SECONDS, leave_code, take_code
from unisono.standalone.paths import DataDir


def test_a_code_is_taken_once(tmp_path: Path) -> None:
    folder = tmp_path / "codes"
    code = leave_code(folder)
    now = next(folder.iterdir()).stat().st_mtime
    assert code not in {path.name for path in folder.iterdir()}
    assert take_code(folder, code, now)
    assert not take_code(folder, code, now)


def test_a_code_that_is_too_old_is_not_taken_and_goes(tmp_path: Path) -> None:
    old, forgotten = leave_code(tmp_path), leave_code(tmp_path)
    now = max(path.stat().st_mtime for path in tmp_path.iterdir())
    assert not take_code(tmp_path, old, now + CODE_SECONDS + 1)
    assert not list(tmp_path.iterdir())
    assert not take_code(tmp_path, forgotten, now)


@pytest.mark.parametrize("code", ["", "..", "../secret", "/etc/passwd", "\0"])
def test_a_code_is_no_path(tmp_path: Path, code: str) -> None:
    (tmp_path / "secret").touch()
    assert not take_code(tmp_path / "codes", code, 0.0)
    assert (tmp_path / "secret").exists()


def test_only_the_owner_may_look_at_codes(tmp_path: Path) -> None:
    leave_code(tmp_path / "codes")
    file = next((tmp_path / "codes").iterdir())
    assert (file.stat().st_mode & 0o077, (tmp_path / "codes").stat().st_mode & 0o077) == (0, 0)


def test_there_is_no_link_without_a_running_control_plane(tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    (tmp_path / "run").mkdir()
    port_file(data).write_text("8000")
    assert link_of(data) is None
    with data.acquire():
        link = link_of(data)
        assert link is not None
        assert link.startswith("http://127.0.0.1:8000/#code=")
        port_file(data).write_text("no port")
        assert link_of(data) is None
    assert len(os.listdir(codes_of(data))) == 1  # noqa: PTH208


@pytest.mark.processes
async def test_the_first_request_starts_a_process_that_ends_with_the_control_plane(tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    data.kubeconfig.write_text(
        "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:9'}}]\n"
        "users: [{name: u, user: {token: t}}]\n"
        "contexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n"
    )
    held = Activation(data, tmp_path / "log")
    await held.start()
    try:
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{held.url}/api/session") as answer:
                assert answer.status == 401, (tmp_path / "log").read_text()
        process = held._process
        assert process is not None
        assert process.poll() is None
    finally:
        await held.stop()
    assert process.poll() is not None
    again = Activation(data, None)
    await again.start()
    assert again.url == held.url
    await again.stop()
