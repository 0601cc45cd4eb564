"""Charts that need no Helm: Unisono itself, which the articles call ``volcano``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from unisono.api.application import SyncPolicy
from unisono.fleet.applications import programs
from unisono.fleet.applications.target import Target

OURS: Final = ("unisono", "volcano")
"""Names of charts that mean this project, or what it stands for."""
# How the embedded API server marks its version.
_OWN_VERSION: Final = "+unisono."

Manifests = Callable[[Mapping[str, Any]], Sequence[Mapping[str, Any]]]
"""The manifests of an installation of this project for a chart's values."""


class BuiltIn:
    """What stands for a chart of ours in a cluster."""

    def __init__(self, manifests: Manifests | None = None) -> None:
        """Without ``manifests`` only clusters that are ours already need no Helm."""
        self._manifests = manifests

    def objects(self, policy: SyncPolicy, target: Target) -> tuple[str, Sequence[Mapping[str, Any]] | None]:
        """A remark and the objects; None where the chart has to be rendered."""
        chart = policy.helm.chart.spec.chart if policy.helm is not None else ""
        if chart not in OURS:
            return "", None
        if _OWN_VERSION in target.version:
            return "this cluster is a control plane of Unisono, which has it built in", ()
        if chart == "volcano" and programs.find("helm") is not None:
            return "", None
        if self._manifests is None:
            return "", None
        assert policy.helm is not None
        return f"Unisono's own manifests stand for the chart {chart}", self._manifests(policy.helm.values or {})
