"""Finds kinds that the hub's definitions describe by tables, so that their objects are sent to members."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import structlog

from unisono.api.annotations import JOB_KIND
from unisono.api.kinds import CUSTOM_RESOURCE_DEFINITIONS
from unisono.fleet.jobs.described import is_described, kinds_of
from unisono.jobkinds.kind import JobKind
from unisono.kube.controller import Context, Controller

_log = structlog.get_logger(__name__)

MOST_KINDS = 64
"""Kinds of users' own that one hub sends: each is watched in every member until the hub ends."""


class DescribedKinds(Controller):
    """Tells of each such kind when its definition comes, and again when its table changes.

    A kind that is not to be sent any more is told with an empty ``fleet``.
    What a kind has in members stays known when its definition goes, until its objects have gone with it.
    """

    name = "fleet-described-kinds"
    workers = 1

    def __init__(self, found: Callable[[JobKind], None]) -> None:
        self._found = found
        self._told: dict[str, Any] = {}
        self._kinds: dict[str, JobKind] = {}

    def setup(self, context: Context) -> None:
        """Watch definitions."""
        self._definitions = context.watch(CUSTOM_RESOURCE_DEFINITIONS, optional=True)

    async def reconcile(self, key: str) -> float | None:
        """Look at one definition."""
        crd = self._definitions.get(key)
        if crd is None or crd.metadata.deletion_timestamp or not (is_described(crd) or key in self._kinds):
            return None
        definition = ((crd.metadata.annotations or {}).get(JOB_KIND), crd.spec.versions)
        if self._told.get(key) == definition:
            return None
        self._told[key] = definition
        described = kinds_of([crd]).get(key)
        if described is None and key in self._kinds:
            described = replace(self._kinds[key], fleet="")
        if described is not None and key not in self._kinds and len(self._kinds) >= MOST_KINDS:
            _log.warning("described_kinds.too_many", kind=key, most=MOST_KINDS)
            return None
        if described is not None:
            self._kinds[key] = described
            self._found(described)
        return None
