"""docs/verdicts.md: every cause is described, and every example is what the engine says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from msgspec import Struct
from verdict_scenarios import PLUGINS, SCENARIOS

from support.build import cluster, schedule
from unisono.cli.explaining import verdict_lines
from unisono.engine import changes
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.verdict import Cause
from unisono.scheduler.explain import on_wire, render

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "verdicts.md").read_text(encoding="utf-8")


def names_of(settings: SchedulerConfig) -> set[str]:
    return {option.name for tier in settings.tiers for option in tier}


def told(cause: Cause) -> str:
    _, things, settings = SCENARIOS[cause]
    plugins = {name: plugin for name, plugin in PLUGINS.items() if name in names_of(settings)}
    verdict = schedule(cluster(things), settings, plugins=plugins).verdicts["ns/j"]
    assert verdict.cause is cause
    return "\n".join(verdict_lines(on_wire(verdict)))


@pytest.mark.parametrize("cause", list(Cause))
def test_every_cause_is_described(cause: Cause) -> None:
    assert re.search(rf"^### {cause.value}$|^\| `{cause.value}` \|", PAGE, re.MULTILINE)


@pytest.mark.parametrize("cause", list(SCENARIOS))
def test_the_example_of_a_cause_is_true(cause: Cause) -> None:
    section = PAGE.split(f"\n### {cause.value}\n", 1)[1].split("\n### ", 1)[0].split("\n## ", 1)[0]
    assert SCENARIOS[cause][0] in section.replace("\n", " ")
    assert f"```text\n{told(cause)}\n```" in section


@pytest.mark.parametrize("change", changes.KINDS)
def test_every_change_is_described_with_its_fields(change: type[Struct]) -> None:
    row = re.search(rf"^\| `{change.__name__}` \|([^|]*)\|", PAGE, re.MULTILINE)
    assert row is not None
    assert re.findall(r"`(\w+)`", row[1]) == list(change.__struct_fields__)


def test_fields_of_the_json_are_described() -> None:
    _, things, settings = SCENARIOS[Cause.NODES_FULL]
    rendered = json.loads(render(schedule(cluster(things), settings).verdicts["ns/j"]))
    assert {"change", "wouldRunAfter", "reasons", "holders"} <= rendered.keys()
    assert rendered["change"] == {"kind": "AddNodes", "like": "n000", "count": 1}
    assert set(rendered) <= set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
