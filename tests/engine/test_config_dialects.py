"""Configurations of kube-batch and of older versions of Volcano, in the form that is read here."""

from __future__ import annotations

import pytest

from unisono.engine.config_file.dialects import convert
from unisono.engine.config_file.reader import DEFAULT_TEXT, config_errors, load_config
from unisono.errors import ConfigError


def plugin(lines: str, actions: str = "enqueue, allocate") -> str:
    return f'actions: "{actions}"\ntiers:\n- plugins:\n  - name: gang\n{lines}'


KUBE_BATCH = """
actions: "allocate, backfill"
tiers:
- plugins:
  - name: priority
    disableJobOrder: true
  - name: gang
- plugins:
  - name: drf
    preemptableDisabled: true
  - name: predicates
  - name: proportion
  - name: nodeorder
    arguments:
      nodeaffinity.weight: "2"
"""


def test_kube_batch() -> None:
    found = convert(KUBE_BATCH)
    config = load_config(found.text)
    by_name = {one.name: one for one in config.plugins}
    assert not by_name["priority"].flags.job_order
    assert not by_name["drf"].flags.preemptable
    assert by_name["nodeorder"].arguments == {"nodeaffinity.weight": 2}
    assert not found.lost


CHANGES = {
    "actions as a list": (
        "actions: [enqueue, allocate]\ntiers:\n- plugins: [{name: gang}]\n",
        "actions: enqueue, allocate",
    ),
    "plug-ins as names": ("actions: allocate\ntiers:\n- plugins: [gang, predicates]\n", "- name: predicates"),
    "another spelling of a switch": (plugin("    enabledJobOrder: false\n"), "enableJobOrder: false"),
    "a switch in quotes": (plugin("    enableJobOrder: 'false'\n"), "enableJobOrder: false"),
    "a name that means the same": (
        plugin("  - name: binpack\n    arguments: {binpack.cpu.weight: '3'}\n"),
        "binpack.cpu: 3",
    ),
    "load of Volcano 1.6": (
        plugin("  - name: usage\n    arguments:\n      thresholds: {CPUUsageAvg.5m: 90, MEMUsageAvg.5m: 80}\n"),
        "cpu: 90\n        mem: 80",
    ),
    "an argument of another plug-in": (
        plugin("  - name: predicates\n    arguments: {nodeaffinity.weight: 2}\n  - name: nodeorder\n"),
        "- name: nodeorder\n    arguments:\n      nodeaffinity.weight: 2",
    ),
    "what action enqueue did before Volcano 1.2": (
        plugin("  - name: predicates\n")
        + "configurations:\n- name: enqueue\n  arguments: {overcommit-factor: '1.5'}\n",
        "- name: predicates\n  - name: overcommit\n    arguments:\n      overcommit-factor: 1.5",
    ),
    "an action's argument that is a plug-in's today": (
        plugin("  - name: overcommit\n") + "configurations:\n- name: enqueue\n  arguments: {overcommit-factor: 1.5}\n",
        "- name: overcommit\n    arguments:\n      overcommit-factor: 1.5",
    ),
    "nested metrics": (
        plugin("") + "metrics:\n  type: prometheus\n  address: http://p\n  tls: {insecureSkipVerify: 'true'}\n",
        "tls.insecureSkipVerify: 'true'",
    ),
}


@pytest.mark.parametrize(("text", "expected"), CHANGES.values(), ids=CHANGES)
def test_what_is_written_otherwise_today(text: str, expected: str) -> None:
    assert config_errors(text)
    found = convert(text)
    assert not config_errors(found.text)
    assert expected in found.text
    assert found.changes
    assert not found.lost


def test_what_has_nothing_like_it_is_named() -> None:
    lines = "  - name: frobnicator\n  - name: binpack\n    arguments: {shape: round}\n    enableX: true\n"
    found = convert(plugin(lines))
    assert not config_errors(found.text)
    assert found.lost == [
        "plug-in frobnicator",
        "shape: 'round' of plug-in binpack",
        "enableX: True of plug-in binpack",
    ]


def test_what_is_right_stays_as_it_is() -> None:
    found = convert(DEFAULT_TEXT)
    assert (found.changes, found.lost) == ([], [])
    assert load_config(found.text) == load_config(DEFAULT_TEXT)


@pytest.mark.parametrize("text", ["- a", "a: [", ""])
def test_what_is_no_configuration_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError):
        convert(text)
