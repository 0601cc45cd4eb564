"""``up --detach`` says what is wrong before it leaves anything in the background."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from unisono.cli import detached_plane
from unisono.cli.main import main
from unisono.standalone.paths import DataDir


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as end:
        main(["up", "--detach", *words])
    assert end.value.code == 1
    return capsys.readouterr().err


def test_a_wrong_configuration_and_a_taken_port_are_told_at_once(
    tmp_path: Path, taken: int, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = tmp_path / "scheduler.yaml"
    wrong.write_text("actions: 'enqueue, allocat'\n")
    data = tmp_path / "data"
    told = refused(["--data-dir", str(data), "--scheduler-config", str(wrong)], capsys)
    assert "allocat" in told
    assert str(wrong) in told
    told = refused(["--data-dir", str(data), "--port", str(taken)], capsys)
    assert f"cannot listen on 127.0.0.1:{taken} (Address already in use)" in told
    assert not data.exists(), "nothing was begun"


class SlowChild:
    """A control plane in the background that takes its time, and then ends."""

    returncode = 3

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def poll(self) -> int | None:
        self.looks -= 1
        return None if self.looks >= 0 else self.returncode


def test_who_waits_for_a_slow_start_is_told_once_where_to_look(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detached_plane, "PATIENCE_SECONDS", -1.0)
    monkeypatch.setattr(detached_plane, "POLL_SECONDS", 0.0)
    data = DataDir.at(tmp_path)
    data.log.touch()
    with pytest.raises(detached_plane.StartFailed, match="ended at once with code 3"):
        detached_plane.await_ready(data, SlowChild(looks=3), 0, [])  # type: ignore[arg-type]
    written = capsys.readouterr()
    assert written.out == "", "what programs read is the address alone"
    assert written.err.count("is starting") == 1
    assert str(data.log) in written.err


def test_a_start_that_takes_too_long_says_what_it_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([0.0, 1.0, 1e6])
    monkeypatch.setattr(detached_plane.time, "monotonic", lambda: next(looks))
    monkeypatch.setattr(detached_plane, "POLL_SECONDS", 0.0)
    data = DataDir.at(tmp_path)
    data.kubeconfig.touch()

    async def unready(_: DataDir) -> str:
        return "simulated nodes not ready"

    monkeypatch.setattr(detached_plane, "_unready", unready)
    monkeypatch.setattr(
        detached_plane.asyncio, "run", lambda work: "simulated nodes not ready" if not work.close() else ""
    )
    with pytest.raises(detached_plane.StartFailed, match=r"within 180 s \(simulated nodes not ready\): see"):
        detached_plane.await_ready(data, SlowChild(looks=9), 0, [])  # type: ignore[arg-type]
