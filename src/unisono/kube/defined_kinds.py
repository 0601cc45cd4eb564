"""Kinds of jobs that a cluster's own definitions describe, read when one is asked for that is not known."""

from __future__ import annotations

from collections.abc import Callable

from unisono.api.core import CustomResourceDefinition
from unisono.api.kinds import CUSTOM_RESOURCE_DEFINITIONS
from unisono.errors import ApiError
from unisono.jobkinds.kind import JobKind
from unisono.jobkinds.registry import Kinds, known, known_with, set_aside
from unisono.kube.client import Client
from unisono.kube.clock import Clock
from unisono.lazy_logs import LazyLogger

_log = LazyLogger(__name__)
_FRESH = 60.0
"""Seconds for which definitions are not read again: they are large, and change seldom."""


class DefinedKinds:
    """What is known of kinds on one cluster.

    Args:
        client: the cluster; who may not list its definitions knows those of the program alone.
        clock: for how long something is known.
        wrong: is told of each definition whose table cannot be used, and why, once.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        wrong: Callable[[CustomResourceDefinition, str], None] = lambda _definition, _why: None,
    ) -> None:
        self._client, self._clock, self._wrong = client, clock, wrong
        self._kinds: Kinds | None = None
        self._read_at = float("-inf")
        self._told: dict[str, str] = {}
        for name, why in set_aside().items():
            _log.warning("kinds.set_aside", entry_point=name, error=why)

    async def of_kind(self, api_version: str, kind: str) -> JobKind | None:
        """What is known of a kind of jobs, in whatever version; None of none.

        Raises:
            ApiError: the server cannot answer.
        """
        return known().of_kind(api_version, kind) or (await self.all()).of_kind(api_version, kind)

    async def all(self) -> Kinds:
        """All kinds of jobs that are known on the cluster.

        Raises:
            ApiError: the server cannot answer.
        """
        now = self._clock.monotonic()
        if self._kinds is None or now - self._read_at >= _FRESH:
            try:
                definitions = (await self._client.list(CUSTOM_RESOURCE_DEFINITIONS)).items
            except ApiError as error:
                if error.code not in (403, 404):
                    raise
                definitions = []
            self._kinds, wrong = known_with(definitions)
            self._read_at = now
            for definition in definitions:
                why = wrong.get(definition.metadata.name)
                if why is not None and self._told.get(definition.metadata.name) != why:
                    self._wrong(definition, why)
            self._told = wrong
        return self._kinds
