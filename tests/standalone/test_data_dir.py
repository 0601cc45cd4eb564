"""Who holds a data directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from unisono.standalone.paths import AlreadyRunning, DataDir, UnusableDataDir, default_data_dir


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


def test_a_folder_that_others_use_too_keeps_its_mode(tmp_path: Path) -> None:
    """``--data-dir /tmp`` must not take /tmp away from everybody else."""
    tmp_path.chmod(0o755)
    (tmp_path / "somebody-elses").write_text("")
    for _ in range(2):
        DataDir.at(tmp_path).acquire().close()
        assert tmp_path.stat().st_mode & 0o777 == 0o755
    (warning,) = DataDir.at(tmp_path).exposed()
    assert f"(mode 0755), which holds files of others too: 'chmod 700 {tmp_path}' closes it" in warning
    tmp_path.chmod(0o700)
    assert DataDir.at(tmp_path).exposed() == []


def test_an_own_directory_is_closed_to_others_again(tmp_path: Path) -> None:
    data = DataDir.at(tmp_path / "d")
    data.acquire().close()
    data.root.chmod(0o755)
    data.acquire().close()
    assert data.root.stat().st_mode & 0o777 == 0o700


def test_files_that_others_can_read_are_named_with_the_cure(tmp_path: Path) -> None:
    data = DataDir.at(tmp_path / "d")
    assert data.exposed() == [], "there is nothing yet"
    data.create()
    (data.root / "pki").mkdir()
    key, token = data.root / "pki" / "ca.key", data.root / "pki" / "admin.token"
    for path in (data.kubeconfig, data.database, key, token):
        path.touch(mode=0o600)
    assert data.exposed() == []
    for path, cure in (
        (data.kubeconfig, f"'rm {token}' while the control plane is stopped"),
        (data.database, f"'chmod 600 {data.database}'"),
        (key, f"'chmod 600 {key}'"),
        (token, f"'chmod 600 {token}'"),
    ):
        path.chmod(0o640)
        (warning,) = data.exposed()
        assert str(path) in warning
        assert "mode 0640" in warning
        assert cure in warning
        path.chmod(0o600)


def test_a_directory_that_cannot_be_made_is_named_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnusableDataDir, match=r"file/d cannot be used \(Not a directory\).*--data-dir"):
        DataDir.at(tmp_path / "file" / "d").acquire()
    (tmp_path / "unisono.pid").mkdir()
    with pytest.raises(UnusableDataDir, match="Is a directory"):
        DataDir.at(tmp_path).acquire()


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
