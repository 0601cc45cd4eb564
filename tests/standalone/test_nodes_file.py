"""The file of --nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from unisono.errors import ConfigError
from unisono.standalone.paths import read_nodes


def test_a_list_is_read(tmp_path: Path) -> None:
    file = tmp_path / "n.yaml"
    file.write_text(
        "- {name: a, count: 2, capacity: {cpu: 4, memory: 1Gi}}\n- {name: b, capacity: {cpu: 1, memory: 1Gi}}\n"
    )
    assert [entry["name"] for entry in read_nodes(file)] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: a\n", "expected a list of nodes"),
        ("", "is empty"),
        ("- 3\n", "expected a list"),
        ("- {name: n}\n", r"n\.yaml: .*name: YAML reads n, no, off and false .* put the name in quotes"),
        ("- {name: 1.5}\n", r"name: YAML reads 1\.5 without quotes as a number: put the name in quotes"),
        ("- {name: a, capacity: {cpu: 4, memory: 1Gi}, labels: {gpu: yes}}\n", r"labels\.gpu: YAML reads y, yes, on"),
    ],
)
def test_anything_else_is_refused_with_the_way_out(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "n.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_nodes(file)


def test_what_is_wrong_with_a_node_is_said_with_the_file(tmp_path: Path) -> None:
    """YAML reads ``n`` as false: the message has to lead to the place."""
    file = tmp_path / "nodes.yaml"
    file.write_text("- {name: n, capacity: {cpu: 4, memory: 1Gi}}\n")
    with pytest.raises(ConfigError, match=r"nodes\.yaml: .*without quotes as the boolean false"):
        read_nodes(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.yaml"):
        read_nodes(tmp_path / "missing.yaml")
