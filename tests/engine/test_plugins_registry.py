"""Finding plug-ins: built-in ones, ``module:Class``, and what cannot be loaded."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from plugins_world import World, a_pod

from unisono import engine
from unisono.engine.answers import FloatArray, RawScore
from unisono.engine.config.model import PluginConfig
from unisono.engine.config_file.reader import load_config
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugins.registry import BUILT_IN, arguments_of, create, find, plugin_names
from unisono.errors import ConfigError


class Fast(Plugin):
    """Prefers nodes with a label ``fast``."""

    name: ClassVar[str] = "fast"

    def static_score(self, pod_class: Any, nodes: Any) -> list[RawScore]:
        raw: FloatArray = (nodes.label_codes("fast") >= 0).astype(np.float64)
        return [RawScore(raw, weight=100.0 * self.arguments.get("fast.weight", 1))]


NotAPlugin = 3
HERE = __name__

CONFIG = f"""\
actions: allocate
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: "{HERE}:Fast"
    arguments: {{fast.weight: 2, anything: [1]}}
"""


VOLCANOS = """
binpack capacity cdp conformance deviceshare drf extender gang network-topology-aware nodegroup nodeorder numa-aware
overcommit pdb predicates priority proportion rescheduling resource-strategy-fit resourcequota sla task-topology tdm
usage
"""


def test_every_plugin_of_volcano_is_built_in() -> None:
    assert set(VOLCANOS.split()) <= set(plugin_names())
    assert all(plugin.name == name and find(name) is plugin for name, plugin in BUILT_IN.items())


def test_every_built_in_plugin_declares_its_arguments_and_can_be_made() -> None:
    for name in plugin_names():
        assert arguments_of(name) is not None
        if name != "extender":  # it is made with a transport: test_plugins_extender.py
            assert create(PluginConfig(name)).name == name


def test_a_class_of_a_module_takes_part_in_a_cycle() -> None:
    config = load_config(CONFIG)
    world = World().node("a").node("b", {"fast": "yes"}).queue("q").job("j", a_pod())
    decisions = engine.run(world.state.snapshot(), config, now=0.0)
    assert [(bind.pod, bind.node) for bind in decisions.binds] == [("j-0", "b")]
    assert config.plugins[2].arguments == {"fast.weight": 2, "anything": [1]}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no_such_module:Class", "cannot be imported: No module named 'no_such_module'"),
        (f"{HERE}:Missing", "cannot be imported"),
        (f"{HERE}:NotAPlugin", "is not a subclass of unisono.plugin.Plugin"),
    ],
)
def test_what_cannot_be_loaded_is_named_with_its_line(name: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(CONFIG.replace(f"{HERE}:Fast", name), "scheduler.conf")
    assert str(caught.value).startswith(f"scheduler.conf:6: plug-in {name} ")
    assert words in str(caught.value)


def test_unknown_names_are_nobody() -> None:
    assert find("zzz") is None
    with pytest.raises(ConfigError, match="unknown plug-in zzz"):
        create(PluginConfig("zzz"))
