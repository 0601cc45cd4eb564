"""The file of --nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from unisono.errors import ConfigError
from unisono.standalone.nodes_file import read_nodes


def test_a_list_is_read(tmp_path: Path) -> None:
    file = tmp_path / "n.yaml"
    file.write_text("- {name: a, count: 2, capacity: {cpu: 4}}\n- {name: b, capacity: {cpu: 1}}\n")
    assert [entry["name"] for entry in read_nodes(file)] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "message"), [("name: a\n", "expected a list of nodes"), ("", "is empty"), ("- 3\n", "expected a list")]
)
def test_anything_else_is_refused_with_the_way_out(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "n.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_nodes(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.yaml"):
        read_nodes(tmp_path / "missing.yaml")
