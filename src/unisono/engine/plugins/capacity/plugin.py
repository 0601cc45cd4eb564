"""capacity: shares of queues in plain amounts; with ``enableHierarchy`` over a tree of queues."""

from __future__ import annotations

from typing import Self

from unisono.engine.config.model import PluginConfig
from unisono.engine.plugins.capacity.queue_tree import QueueTreeCapacity
from unisono.engine.plugins.capacity.queues import QueueCapacity


class CapacityPlugin(QueueCapacity):
    """The plug-in that a configuration names ``capacity``."""

    def __new__(cls, config: PluginConfig) -> Self:
        """With ``enableHierarchy`` the plug-in that knows trees of queues."""
        chosen: type = _WithQueueTree if cls is CapacityPlugin and config.flags.hierarchy else cls
        made: Self = object.__new__(chosen)
        return made


class _WithQueueTree(QueueTreeCapacity, CapacityPlugin):
    """What ``enableHierarchy`` makes of the plug-in."""
