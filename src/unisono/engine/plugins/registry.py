"""Which plug-ins exist, by the name that a configuration uses.

A name with a colon, ``package.module:Class``, is imported; a name that is not built in is looked up among the installed
entry points of group ``unisono.plugins``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module, invalidate_caches
from importlib.metadata import EntryPoint, entry_points

from unisono.engine.config.arguments import Argument
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Lookup, Plugin
from unisono.engine.plugins.admission_limits import OvercommitPlugin, ResourceQuotaPlugin, UserLimitsPlugin
from unisono.engine.plugins.budgets import BudgetsPlugin
from unisono.engine.plugins.calendar import CalendarPlugin
from unisono.engine.plugins.capacity.plugin import CapacityPlugin
from unisono.engine.plugins.cluster_preference import ClusterPreferencePlugin, CostPlugin
from unisono.engine.plugins.deviceshare.plugin import DeviceSharePlugin
from unisono.engine.plugins.drf import DrfPlugin
from unisono.engine.plugins.eviction_guard import EvictionGuardPlugin
from unisono.engine.plugins.extender import ExtenderPlugin
from unisono.engine.plugins.failed_nodes import FailedNodesPlugin
from unisono.engine.plugins.fair_share import FairSharePlugin
from unisono.engine.plugins.fragmentation.plugin import FragmentationPlugin
from unisono.engine.plugins.gang import GangPlugin
from unisono.engine.plugins.gpu_placement import GpuAwarePlugin, GpuPlacementPlugin
from unisono.engine.plugins.hot_spares import HotSparesPlugin
from unisono.engine.plugins.network_topology_aware.plugin import NetworkTopologyAwarePlugin
from unisono.engine.plugins.node_checks import NodeChecksPlugin
from unisono.engine.plugins.node_scores import BinpackPlugin, NodeOrderPlugin, ResourceStrategyFitPlugin
from unisono.engine.plugins.nodegroup import NodeGroupPlugin
from unisono.engine.plugins.numa_aware import NumaAwarePlugin
from unisono.engine.plugins.one_of import OneOfPlugin
from unisono.engine.plugins.predicates.plugin import PredicatesPlugin
from unisono.engine.plugins.proportion.plugin import ProportionPlugin
from unisono.engine.plugins.protected_pods import CdpPlugin, ConformancePlugin, PdbPlugin
from unisono.engine.plugins.rescheduling.plugin import ReschedulingPlugin
from unisono.engine.plugins.reservation.plugin import ReservationPlugin
from unisono.engine.plugins.service_order import PriorityPlugin, ServiceOrderPlugin, SlaPlugin
from unisono.engine.plugins.task_topology import TaskTopologyPlugin
from unisono.engine.plugins.tdm import TdmPlugin
from unisono.engine.plugins.usage import UsagePlugin
from unisono.errors import ConfigError

GROUP = "unisono.plugins"

BUILT_IN: dict[str, type[Plugin]] = {
    plugin.name: plugin
    for plugin in (
        PriorityPlugin,
        GangPlugin,
        ConformancePlugin,
        DrfPlugin,
        ProportionPlugin,
        CapacityPlugin,
        OvercommitPlugin,
        PredicatesPlugin,
        NodeOrderPlugin,
        BinpackPlugin,
        NetworkTopologyAwarePlugin,
        DeviceSharePlugin,
        FragmentationPlugin,
        GpuAwarePlugin,
        GpuPlacementPlugin,
        NumaAwarePlugin,
        ServiceOrderPlugin,
        SlaPlugin,
        ResourceQuotaPlugin,
        PdbPlugin,
        CdpPlugin,
        NodeGroupPlugin,
        TdmPlugin,
        UsagePlugin,
        ResourceStrategyFitPlugin,
        ExtenderPlugin,
        TaskTopologyPlugin,
        ReservationPlugin,
        EvictionGuardPlugin,
        ReschedulingPlugin,
        CostPlugin,
        ClusterPreferencePlugin,
        FairSharePlugin,
        UserLimitsPlugin,
        FailedNodesPlugin,
        HotSparesPlugin,
        CalendarPlugin,
        BudgetsPlugin,
        NodeChecksPlugin,
        OneOfPlugin,
    )
}


def plugin_names() -> tuple[str, ...]:
    """Names of the built-in plug-ins."""
    return tuple(BUILT_IN)


def find(name: str) -> type[Plugin] | None:
    """The class behind a name, None when there is none; raises ConfigError when it cannot be imported."""
    built_in = BUILT_IN.get(name)
    if built_in is not None:
        return built_in
    if ":" in name:
        module, _, attribute = name.partition(":")
        return _checked(name, lambda: getattr(import_module(module), attribute))
    for entry in _installed(name):
        return _checked(name, entry.load)
    return None


def is_built_in(name: str) -> bool:
    """Whether a name means one of our own plug-ins."""
    return name in BUILT_IN


def is_code(name: str) -> bool:
    """Whether a name means a class of a module, ``module:Class``, and no plug-in that is built in or installed."""
    return ":" in name and name not in BUILT_IN


@contextmanager
def fresh_code(names: Iterable[str]) -> Iterator[None]:
    """Import the packages of these plug-ins again within the block; if it fails, they stay as they were.

    Args:
        names: of plug-ins; those that are no ``module:Class`` are left alone.
    """
    packages = {name.partition(":")[0].partition(".")[0] for name in names if is_code(name)} - {"unisono", ""}
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in packages}
    for name in before:
        del sys.modules[name]
    # A file may have been written within the second of its compiled form.
    invalidate_caches()
    try:
        yield
    except BaseException:
        for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
            del sys.modules[name]
        sys.modules.update(before)
        raise


def lookup_with(extra: Mapping[str, type[Plugin]]) -> Lookup:
    """Plug-ins of ``extra`` before those of the registry."""
    return (lambda name: extra.get(name) or find(name)) if extra else find


def arguments_of(name: str) -> tuple[Argument, ...] | None:
    """Arguments that the plug-in declares; None when it declares nothing, so anything may be given."""
    plugin_class = find(name)
    declared: tuple[Argument, ...] | None = getattr(plugin_class, "known_arguments", None)
    return declared


def create(config: PluginConfig) -> Plugin:
    """A fresh instance for one session; raises ConfigError for an unknown name."""
    plugin_class = find(config.name)
    if plugin_class is None:
        raise ConfigError(f"unknown plug-in {config.name}; remove it from the scheduler configuration")
    return plugin_class(config)


def _installed(name: str) -> Iterator[EntryPoint]:
    return iter(entry_points(group=GROUP, name=name))


def _checked(name: str, load: Callable[[], object]) -> type[Plugin]:
    try:
        loaded = load()
    except Exception as error:
        hint = ": install its package, or put its folder on PYTHONPATH" if isinstance(error, ImportError) else ""
        raise ConfigError(f"plug-in {name} cannot be imported: {error}{hint}") from error
    if not (isinstance(loaded, type) and issubclass(loaded, Plugin)):
        raise ConfigError(f"plug-in {name} is not a subclass of unisono.plugin.Plugin")
    return loaded
