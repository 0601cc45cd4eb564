"""drf: dominant resource fairness. No arguments; the switch ``enableHierarchy`` adds the tree of queues."""

from __future__ import annotations

from typing import Self

from unisono.engine.config.model import PluginConfig
from unisono.engine.plugins.drf.jobs import JobDrf
from unisono.engine.plugins.drf.queue_tree import QueueTreeDrf


class DrfPlugin(JobDrf):
    """The plug-in that a configuration names ``drf``."""

    def __new__(cls, config: PluginConfig) -> Self:
        """With ``enableHierarchy`` the plug-in that also orders queues."""
        chosen: type = _WithQueueTree if cls is DrfPlugin and config.flags.hierarchy else cls
        made: Self = object.__new__(chosen)
        return made


class _WithQueueTree(QueueTreeDrf, DrfPlugin):
    """What ``enableHierarchy`` makes of the plug-in."""
