"""Which fields of Queues a configuration enforces."""

from __future__ import annotations

import pytest

from support.build import config
from unisono.api.queues import NEEDS
from unisono.engine.config.model import enforced_queue_fields
from unisono.engine.config_file.reader import default_config, load_config

TREE = "actions: allocate\ntiers: [{plugins: [{name: capacity, enableHierarchy: true}, {name: nodegroup}]}]"


@pytest.mark.parametrize(
    ("settings", "fields"),
    [
        (config(("gang",)), ()),
        (default_config(), ("deserved", "guarantee", "parent", "priority", "weight")),
        (load_config("--volcano-strict"), ("guarantee", "priority", "weight")),
        (config(("capacity",)), ("deserved", "guarantee", "priority")),
        (load_config(TREE), ("affinity", "deserved", "guarantee", "parent", "priority")),
    ],
    ids=["neither", "default", "strict", "capacity", "tree"],
)
def test_fields_by_plug_in(settings, fields) -> None:
    assert enforced_queue_fields(settings) == fields
    assert set(fields) <= set(NEEDS)
