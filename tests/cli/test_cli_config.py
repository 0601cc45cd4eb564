"""``unisono config check``."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from unisono.api.annotations import CONFIGURATION_DIGEST, CONFIGURATION_SOURCE
from unisono.cli.commands import config
from unisono.cli.commands.config import _is_behind
from unisono.cli.main import cli


def check(*words: str) -> Result:
    return CliRunner().invoke(cli, ["config", "check", *words])


def test_a_scheduler_is_behind_until_it_has_read_the_newest_text(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.conf"
    file.write_text("new")
    old, new = (sha256(text).hexdigest() for text in (b"old", b"new"))

    def behind(digest: str, written: str | None = None, source: str = str(file)) -> bool:
        return _is_behind({CONFIGURATION_DIGEST: digest, CONFIGURATION_SOURCE: source}, written)

    assert behind(old)
    assert not behind(new)
    assert behind(new, "newer, in a ConfigMap")
    assert not behind(old, source="ConfigMap a/b")  # it is gone, or may not be read
    assert not behind("")  # of a scheduler that does not say it


@pytest.mark.parametrize(
    ("answers", "told"), [([[], [], [{"a": "1"}]], ([{"a": "1"}], True)), ([[]], ([], False)), ([[{}]], ([{}], True))]
)
async def test_a_scheduler_that_has_just_started_is_waited_for(
    answers: list[Any], told: tuple[Any, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "_LOOK_SECONDS", 0)
    left = iter(answers)

    async def look() -> list[dict[str, str]]:
        return next(left, answers[-1])

    assert await config._told_in_time(look, None) == told


_TEXT = "actions: allocate\ntiers:\n- plugins:\n  - {name: gang}\n  - {name: predicates}\n"
_OURS = {
    "kind": "ConfigMap",
    "metadata": {"name": "volcano-scheduler-configmap"},
    "data": {"volcano-scheduler.conf": _TEXT},
}
_OTHER = {"kind": "ConfigMap", "metadata": {"name": "admission"}, "data": {"admission.conf": "resourceGroups: []"}}


@pytest.mark.parametrize(
    ("written", "where"),
    [
        ([_OTHER, _OURS], "ConfigMap"),
        ([{"kind": "List", "items": [_OTHER, _OURS]}], "ConfigMap"),
        ([{"custom": {"scheduler_config_override": _TEXT}}], "custom.scheduler_config_override"),
        ([{"ca_cert": "", "default_scheduler_conf": yaml.safe_load(_TEXT)}], "default_scheduler_conf"),
    ],
    ids=["manifests", "a list", "values of a chart", "parameters of an add-on"],
)
def test_a_configuration_within_other_things(written: list[Any], where: str, tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all(written))
    done = check("-f", str(file))
    assert done.stdout.splitlines() == [f"{file}: ok", "  actions: allocate", "  tier 1: gang, predicates"]
    file.write_text(yaml.safe_dump_all(written).replace("gang", "gangg"))
    assert f"{file}, {where}:" in check("-f", str(file)).stdout


def test_manifests_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all([_OURS]) + "---\nkind: Service\nkind: Pod\n")
    done = check("-f", str(file))
    assert done.exit_code == 1
    assert 'key "kind" is given twice' in done.stdout


def test_a_file_that_can_be_used(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.conf"
    file.write_text('actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n')
    done = check("-f", str(file))
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [f"{file}: ok", "  actions: enqueue, allocate", "  tier 1: gang, predicates"]
    assert json.loads(check("-f", str(file), "-o", "json").stdout)["tiers"] == [["gang", "predicates"]]


def test_every_error_is_named(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.conf"
    file.write_text("""\
actions: alocate, backfill, preemptt
tiers:
- plugins:
  - name: gangg
  - name: binpack
    arguments: {binpack.wait: 3, binpack.cpu: many}
    enablePreemptabel: true
- plugin: []
configuration: []
metrics: {type: 1, adress: x}
""")
    done = check("-f", str(file))
    assert done.exit_code == 1
    found = json.loads(check("-f", str(file), "-o", "json").stdout)
    assert found["error"] == found["errors"][0]
    wrong = (
        "alocate",
        "preemptt",
        "gangg",
        "binpack.wait",
        "binpack.cpu",
        "enablePreemptabel",
        "plugin",
        "configuration",
        "adress",
    )
    lines = done.stdout.splitlines()
    assert lines[0] == f"{file}: refused: {len(found['errors'])} errors"
    for number, name in enumerate(wrong):
        assert name in found["errors"][number], found["errors"]
        assert lines[number + 1] == f"  {found['errors'][number]}"


def test_a_file_of_errors_alone_is_not_read_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.conf"
    file.write_text("actions: allocate\ntiers:\n- plugins:\n" + "  - name: no-such\n" * 1000)
    assert len(json.loads(check("-f", str(file), "-o", "json").stdout)["errors"]) == 100


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("actions: alocate\n", "alocate"),
        ("actions: allocate\ntiers:\n- plugins:\n  - name: gangg\n", "gangg"),
        ("actions: allocate\ntiers:\n- plugins:\n  - name: nowhere_to_be_found:Mine\n", "cannot be imported"),
        ("actions: [", "scheduler.conf"),
    ],
)
def test_an_error_is_named(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "scheduler.conf"
    file.write_text(text)
    done = check("-f", str(file))
    assert done.exit_code == 1
    assert said in done.stdout
    assert json.loads(check("-f", str(file), "-o", "json").stdout)["error"]
