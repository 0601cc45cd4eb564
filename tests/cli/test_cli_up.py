"""``up --detach`` says what is wrong before it leaves anything in the background."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from unisono.cli.main import main


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
