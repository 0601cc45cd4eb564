from __future__ import annotations

from pathlib import Path

import pytest

from unisono.engine.config.model import SchedulerConfig
from unisono.engine.plugins.registry import find
from unisono.errors import ConfigError
from unisono.scheduler.settings import FileConfig, FixedConfig


def load(text: str, file: str) -> SchedulerConfig:
    if "bad" in text:
        raise ConfigError(f"unknown action {text!r}", file=file, line=1, key="actions")
    return SchedulerConfig(actions=(text.strip(),), tiers=())


def source(path: Path, errors: list[str] | None = None) -> FileConfig:
    return FileConfig(path, load, (errors if errors is not None else []).append)


def test_a_changed_file_is_used_and_an_unchanged_one_is_the_same_object(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text("one")
    config = source(path)
    first = config.poll()
    assert first.actions == ("one",) and config.poll() is first
    path.write_text("second")
    assert config.poll().actions == ("second",)


def test_a_touched_file_with_the_same_content_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text("one")
    config = source(path)
    first = config.poll()
    path.unlink()
    path.write_text("one")
    assert config.poll() is first


def test_a_swapped_link_is_seen(tmp_path: Path) -> None:
    """As a ConfigMap volume does it: the folder behind the link changes in one step."""
    for name in ("v1", "v2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "scheduler.yaml").write_text(name)
    link = tmp_path / "data"
    link.symlink_to("v1")
    config = source(link / "scheduler.yaml")
    assert config.poll().actions == ("v1",)
    fresh = tmp_path / "fresh"
    fresh.symlink_to("v2")
    fresh.rename(link)
    assert config.poll().actions == ("v2",)


def test_a_wrong_file_keeps_the_configuration_and_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text("one")
    errors: list[str] = []
    config = source(path, errors)
    first = config.poll()
    path.write_text("bad!")
    assert config.poll() is first and config.poll() is first
    assert len(errors) == 1 and "unknown action" in config.error and str(path) in config.error
    path.unlink()
    assert config.poll() is first and config.poll() is first
    assert len(errors) == 2 and "cannot be read" in errors[1]
    path.write_text("better")
    assert config.poll().actions == ("better",)
    assert config.error == ""


def test_the_old_content_again_clears_the_error(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text("one")
    config = source(path)
    path.write_text("bad!")
    config.poll()
    path.write_text("one")
    assert config.poll().actions == ("one",) and config.error == ""


def test_the_first_file_must_be_right(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    with pytest.raises(ConfigError, match="cannot be read"):
        source(path)
    path.write_text("bad")
    with pytest.raises(ConfigError, match="unknown action"):
        source(path)


def test_without_a_file_the_default_runs() -> None:
    assert "allocate" in FixedConfig().poll().actions


PLUGIN = """
from unisono.plugin import Plugin


class Mine(Plugin):
    name = "mine"
    number = {number}
"""
CONFIGURATION = 'actions: allocate\ntiers:\n- plugins:\n  - name: "reloaded_plugins:Mine"\n'


def test_code_of_plugins_is_read_again_with_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    code, path = tmp_path / "reloaded_plugins.py", tmp_path / "scheduler.yaml"

    def write(number: str) -> None:
        code.write_text(PLUGIN.format(number=number))
        path.unlink(missing_ok=True)
        path.write_text(CONFIGURATION)

    def number() -> object:
        return getattr(find("reloaded_plugins:Mine"), "number", None)

    write("1")
    config = FileConfig(path)
    assert number() == 1
    write("2")
    config.poll()
    assert (config.error, number()) == ("", 2)
    write("1 +")
    config.poll()
    assert "cannot be imported" in config.error
    assert number() == 2
    write("3")
    config.poll()
    assert (config.error, number()) == ("", 3)
