"""docs/scheduler-configuration.md names every key, and every YAML block of it loads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from unisono.api import kinds
from unisono.api.decode import decode
from unisono.engine.actions import action_names
from unisono.engine.config.arguments import FLAG_KEYS
from unisono.engine.config.model import ACTION_ARGUMENTS, KNOWN_ACTIONS, METRICS_KEYS
from unisono.engine.config_file.reader import default_config, load_config
from unisono.engine.plugins.registry import arguments_of, plugin_names

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "scheduler-configuration.md").read_text(encoding="utf-8")
YAML_BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
BLOCKS = [block for block in YAML_BLOCKS if "kind:" not in block]
OBJECTS = [yaml.safe_load(block) for block in YAML_BLOCKS if "kind:" in block]
ROWS = [
    [cell.strip() for cell in line.strip().strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("|")
]


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_yaml_blocks_load(block: str) -> None:
    assert load_config(block, "scheduler-configuration.md").actions


@pytest.mark.parametrize("value", OBJECTS, ids=range(len(OBJECTS)))
def test_objects_decode_without_unknown_fields(value: dict[str, Any]) -> None:
    kind = kinds.find(value["apiVersion"], value["kind"])
    assert kind is not None
    decoded = decode(kind, value)
    assert decoded.unknown_fields == []
    assert decoded.type_errors == []


def test_the_first_block_is_the_default() -> None:
    assert load_config(BLOCKS[0]) == default_config()


@pytest.mark.parametrize("key", FLAG_KEYS)
def test_flag_is_documented(key: str) -> None:
    flag = FLAG_KEYS[key]
    assert [f"`{key}`", flag.guards, str(flag.default).lower()] in ROWS


@pytest.mark.parametrize("name", plugin_names())
def test_plugin_and_its_arguments_are_documented(name: str) -> None:
    assert any(row[0] == f"`{name}`" for row in ROWS)
    arguments = arguments_of(name) or ()
    if not arguments:
        listed = re.search(r"^([^\n]*) take no arguments", PAGE, re.MULTILINE)
        assert listed is not None
        assert f"`{name}`" in listed.group(1)
        return
    section = PAGE.split(f"### {name}\n", 1)[1].split("\n#", 1)[0]
    for argument in arguments:
        row = next(line for line in section.splitlines() if line.startswith(f"| `{argument.key}` | {argument.kind} |"))
        assert ("no effect" in row) == (not argument.effective), row
        default = str(argument.default).lower() if isinstance(argument.default, bool) else str(argument.default)
        assert f"| {default if argument.default not in (None, '') else 'none'} |" in row, row


def test_actions_are_documented() -> None:
    paragraph = PAGE.split("\nActions: ", 1)[1].split("\n\n", 1)[0].replace("\n", " ")
    present, _, missing = paragraph.partition("every PodGroup counts as admitted.")
    assert {name for name in KNOWN_ACTIONS if f"`{name}`" in missing} == KNOWN_ACTIONS - set(action_names())
    assert set(action_names()) <= set(re.findall(r"`(\w+)`", present))


def test_action_arguments_are_documented() -> None:
    for action, arguments in ACTION_ARGUMENTS.items():
        for argument in arguments:
            default = str(argument.default).lower() if isinstance(argument.default, bool) else str(argument.default)
            assert any(
                action in row[0].split(", ") and row[1:] == [f"`{argument.key}`", argument.kind, default]
                for row in ROWS
            ), f"{action} {argument.key}"


def test_metrics_keys_are_documented() -> None:
    assert {row[0].strip("`") for row in ROWS} >= set(METRICS_KEYS)
