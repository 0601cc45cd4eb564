"""drf: dominant resource fairness.

The switch ``enableHierarchy`` adds the tree of queues, ``drf.namespaceOrder`` fairness among the namespaces of a queue.
"""

from __future__ import annotations

from typing import Self

from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.plugins.drf.jobs import JobDrf
from unisono.engine.plugins.drf.namespaces import NamespaceDrf
from unisono.engine.plugins.drf.queue_tree import QueueTreeDrf

_NAMESPACES = Argument(
    "drf.namespaceOrder", "bool", False, "within a queue, the namespace that holds least of the cluster comes first"
)


class DrfPlugin(JobDrf):
    """The plug-in that a configuration names ``drf``."""

    known_arguments = (_NAMESPACES,)

    def __new__(cls, config: PluginConfig) -> Self:
        """With ``enableHierarchy`` or ``drf.namespaceOrder`` the plug-in that also orders queues or namespaces."""
        chosen: type = cls
        if cls is DrfPlugin:
            chosen = _VARIANTS[config.flags.hierarchy, bool(argument_value(_NAMESPACES, config.arguments))]
        made: Self = object.__new__(chosen)
        return made


class _WithNamespaces(NamespaceDrf, DrfPlugin):
    """What ``drf.namespaceOrder`` makes of the plug-in."""


class _WithQueueTree(QueueTreeDrf, DrfPlugin):
    """What ``enableHierarchy`` makes of the plug-in."""


class _WithBoth(NamespaceDrf, QueueTreeDrf, DrfPlugin):
    """What both make of the plug-in."""


_VARIANTS: dict[tuple[bool, bool], type[DrfPlugin]] = {
    (False, False): DrfPlugin,
    (False, True): _WithNamespaces,
    (True, False): _WithQueueTree,
    (True, True): _WithBoth,
}
"""By ``enableHierarchy`` and ``drf.namespaceOrder``."""
