"""The pods on one node."""

from __future__ import annotations

from typing import Any

from unisono.cluster.records import Task


class NodePods(dict[str, Task]):
    """Pods that occupy a node, by key.

    Attributes:
        derived: what readers have worked out from these pods and the annotations of their PodGroups alone, by name. It
            is emptied when they have changed, so that it holds from cycle to cycle.

    """

    __slots__ = ("derived",)

    def __init__(self) -> None:
        super().__init__()
        self.derived: dict[str, Any] = {}
