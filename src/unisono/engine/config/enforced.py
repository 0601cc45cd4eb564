"""Which fields of a Queue a configuration enforces."""

from __future__ import annotations

from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.config.model import SchedulerConfig

DESERVED = Argument(
    "proportion.deserved", "bool", False, "what queues, and queues above them, deserve is theirs before weights count"
)
"""An argument of ``proportion``."""
_BY_PLUGIN = {
    "proportion": ("weight", "guarantee", "priority"),
    "capacity": ("deserved", "guarantee", "priority"),
    "nodegroup": ("affinity",),
}


def enforced_queue_fields(config: SchedulerConfig) -> tuple[str, ...]:
    """Names as in `unisono.api.queues`, in order; ``capability`` always holds and is not named."""
    found: set[str] = set()
    for plugin in config.plugins:
        found.update(_BY_PLUGIN.get(plugin.name, ()))
        if plugin.name == "capacity" and plugin.flags.hierarchy:
            found.add("parent")
        if plugin.name == "proportion" and argument_value(DESERVED, plugin.arguments):
            found.update(("deserved", "parent"))
    return tuple(sorted(found))
