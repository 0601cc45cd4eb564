"""Where ``unisono run`` runs a job: which control plane is meant, and when a private one is started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from unisono.cli.options import Where
from unisono.cli.running.place import Place, control_plane, is_private
from unisono.standalone.paths import DataDir


class _Silent:
    def line(self, *_: object) -> None: ...

    def step(self, *_: object) -> None: ...


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DataDir]:
    """A control plane in a directory of its own, while none runs in the default one."""
    monkeypatch.setenv("UNISONO_DATA_DIR", str(tmp_path / "default"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    data = DataDir.at(tmp_path / "mine")
    data.create()
    with data.acquire():
        data.kubeconfig.write_text("apiVersion: v1\nkind: Config\n")
        yield data


async def _place(where: Where) -> Place:
    async with control_plane(where, _Silent(), None) as place:  # type: ignore[arg-type]
        return place


async def test_a_control_plane_of_this_machine_that_the_environment_names_is_meant(
    running: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(running.kubeconfig))
    monkeypatch.setattr("unisono.cli.connection.find", lambda where: where)
    assert not is_private(Where())
    assert await _place(Where(namespace="team")) == Place(Where(data_dir=running.root, namespace="team"))


@pytest.mark.parametrize("name", ["other", "kubeconfig:kubeconfig"])
def test_another_kubeconfig_in_the_environment_is_not_meant(
    running: DataDir, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (running.root / "other").write_text(running.kubeconfig.read_text())
    monkeypatch.setenv("KUBECONFIG", ":".join(str(running.root / part) for part in name.split(":")))
    assert is_private(Where())


def test_one_that_has_ended_is_not_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNISONO_DATA_DIR", str(tmp_path / "default"))
    data = DataDir.at(tmp_path / "mine")
    data.create()
    data.kubeconfig.write_text("apiVersion: v1\nkind: Config\n")
    monkeypatch.setenv("KUBECONFIG", str(data.kubeconfig))
    assert is_private(Where())
