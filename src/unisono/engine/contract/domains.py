"""Hooks of plug-ins about sub-groups and the domains of a network topology."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from unisono.engine.answers import FloatArray, Key, Refusal, Vote

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState
    from unisono.engine.session.sub_groups import SubGroup


class DomainHooks:
    """Orders and scores of sub-groups and HyperNodes."""

    # ---- topology

    def group_key(self, group: SubGroup) -> Key:
        """Lower is placed first, among the sub-groups of one job."""
        raise NotImplementedError

    def group_ready(self, group: SubGroup) -> bool:
        """Whether enough tasks of a sub-group hold a place."""
        raise NotImplementedError

    def group_pipelined(self, group: SubGroup) -> Vote | Refusal:
        """Whether allocated and pipelined tasks together would make the sub-group ready."""
        raise NotImplementedError

    def domain_gradients(
        self, job: JobState, group: SubGroup | None, top: int, *, evict: bool
    ) -> Sequence[Sequence[int]] | None:
        """HyperNodes (positions in ``session.snapshot.hyper_nodes``) to try for a job, or one sub-group of it.

        The first list is tried first, and only if none of it works the next; all are ``top`` or below it. ``evict``:
        tasks may be evicted there. None abstains.
        """
        raise NotImplementedError

    def domain_points(self, group: SubGroup, domains: Sequence[int]) -> FloatArray:
        """Points per HyperNode of one gradient: where the sub-group is placed best."""
        raise NotImplementedError

    def group_score(self, group: SubGroup, columns: npt.NDArray[np.intp]) -> FloatArray | None:
        """Points per node column for the next task of a sub-group that wants a topology.

        None: the sub-group is not concerned on these nodes, wherever its tasks are placed.
        """
        raise NotImplementedError
