"""Optional hooks that only make decisions faster."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from unisono.engine.answers import FloatArray

Index = npt.NDArray[np.intp]


class LineScore(Protocol):
    """Points of one class that all nodes of a line share.

    Attributes:
        codes: ``[N]`` the line of each node, fixed for the session.

    """

    codes: Index

    def points(self) -> FloatArray:
        """``[G]`` points of each line as things stand; exactly those that ``batch_score`` gives each node of it."""
        ...

    def steady(self, line: int) -> int:
        """How many more pods of the class on nodes of the line lower its points against no other line's.

        Asked right after `points`; 0 where nothing is known.
        """
        ...
