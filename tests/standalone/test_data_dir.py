"""Who holds a data directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from unisono.standalone.paths import AlreadyRunning, DataDir, default_data_dir


def test_one_process_holds_a_directory_and_its_end_frees_it(tmp_path: Path) -> None:
    data = DataDir.at(tmp_path / "d")
    assert data.running_pid() is None
    lock = data.acquire()
    try:
        assert data.running_pid() is not None
        with pytest.raises(AlreadyRunning, match="unisono down --data-dir"):
            data.acquire()
    finally:
        lock.close()
    assert data.running_pid() is None
    data.acquire().close()


def test_the_directory_is_for_its_owner_alone(tmp_path: Path) -> None:
    data = DataDir.at(tmp_path / "a" / "b")
    data.create()
    assert data.root.stat().st_mode & 0o777 == 0o700


def test_a_stale_process_id_counts_for_nothing(tmp_path: Path) -> None:
    data = DataDir.at(tmp_path)
    data.lock.write_text("1\n")
    assert data.running_pid() is None


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"UNISONO_DATA_DIR": "/x/y"}, "/x/y"),
        ({"XDG_DATA_HOME": "/x"}, "/x/unisono"),
        ({"HOME": "/h"}, "/h/.local/share/unisono"),
    ],
)
def test_where_the_default_directory_is(
    environment: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("UNISONO_DATA_DIR", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert default_data_dir() == Path(expected)
