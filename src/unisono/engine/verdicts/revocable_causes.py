"""What plug-in tdm refuses: zones whose nodes take pods within a time of day, and only pods that may be evicted."""

from __future__ import annotations

from collections.abc import Mapping

from unisono.api.keys import PREEMPTABLE, REVOCABLE_ZONE
from unisono.api.messages import plural
from unisono.engine.changes import listed
from unisono.engine.cycle.context import Cycle
from unisono.engine.plugins.tdm import NO_RIGHT, TdmPlugin


def revocable_zones(cycle: Cycle, reasons: Mapping[str, int]) -> str:
    """One sentence; empty where the plug-in refuses no node for the sake of the pods."""
    if NO_RIGHT.text not in reasons:
        return ""
    zones = tuple(sorted(zone for zone in cycle.session.snapshot.nodes.label_values(REVOCABLE_ZONE) if zone))
    return (
        f" Nodes of the revocable {plural(len(zones), 'zone')} {listed(zones)} take only pods that may be evicted:"
        f' with the annotation {PREEMPTABLE}: "true", or {REVOCABLE_ZONE}: "*".'
    )


def opening(cycle: Cycle, reasons: Mapping[str, int]) -> str:
    """``wait until 01:00 UTC, when revocable zone night opens``; empty where no closed window keeps pods away."""
    for plugin in cycle.hooks.plugins():
        if isinstance(plugin, TdmPlugin):
            shut = [(window, zone) for zone, window in plugin.windows.items() if plugin.beyond(zone) in reasons]
            if shut:
                window, zone = min(shut, key=lambda one: one[0].minutes_until(plugin.here))
                return f"wait until {window.opening(plugin.here)} {plugin.clock}, when revocable zone {zone} opens"
    return ""
