"""Configurations of other schedulers: whose they are, and what stands in their place here (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_MIGRATE = "write queues and settings by 'unisono migrate from {0} -f FILE'"
_SCHEDULER = "see docs/scheduler-configuration.md"
_ONE = "one scheduler places all pods"

GROUPS: Final[Mapping[str, tuple[str, str]]] = {
    "kubescheduler.config.k8s.io": ("Kubernetes' scheduler", "rewrite it by 'unisono config convert -f FILE'"),
    "config.kueue.x-k8s.io": ("Kueue", _MIGRATE.format("kueue")),
    "kueue.x-k8s.io": ("Kueue", _MIGRATE.format("kueue")),
    "kai.scheduler": ("KAI-Scheduler", _MIGRATE.format("kai")),
    "scheduling.run.ai": ("KAI-Scheduler", _MIGRATE.format("kai")),
    "config.koordinator.sh": ("Koordinator", _SCHEDULER),
    "descheduler": ("the descheduler", "see plug-in rescheduling in docs/scheduler-configuration.md"),
}
"""By API group: whose a configuration is, and what to do."""

_NAMES: Final[Mapping[str, tuple[str, str]]] = {
    "yunikorn-configs": ("YuniKorn", _MIGRATE.format("yunikorn")),
    "yunikorn-defaults": ("YuniKorn", _MIGRATE.format("yunikorn")),
    "kueue-manager-config": ("Kueue", _MIGRATE.format("kueue")),
    "volcano-admission-configmap": (
        "Volcano's webhook",
        "write schedulerName, nodeSelector and tolerations in the templates of pods, or give the namespaces a Queue "
        "with spec.affinity (plug-in nodegroup)",
    ),
    "volcano-sharding-configmap": ("shards of Volcano's schedulers", _ONE),
    "volcano-agent-scheduler-configmap": ("Volcano's second scheduler", _ONE),
    "slo-controller-config": ("Koordinator's colocation", "see docs/colocation.md"),
    "hami-scheduler-device": ("HAMi", "see plug-in deviceshare in docs/scheduler-configuration.md"),
    "vgpu-manager-scheduler-config": ("vgpu-manager", "see plug-in deviceshare in docs/scheduler-configuration.md"),
}
# Objects of Kueue that a script applies are no configuration.
_GROUP: Final = re.compile(r"^apiVersion:\s*[\"']?((?:[\w-]+\.)*config\.[\w.-]+|descheduler)/", re.MULTILINE)
_SAYS: Final = re.compile(r"^\s*[^#\s]", re.MULTILINE)


def of_others(name: str, data: Mapping[str, Any] | None) -> str:
    """A sentence on a ConfigMap that configures another scheduler; empty where it does not, or says nothing.

    Args:
        name: of the ConfigMap.
        data: texts by key.
    """
    texts = [str(text) for text in (data or {}).values()]
    scheduler = _NAMES.get(name) if any(map(_SAYS.search, texts)) else None
    for match in (match for text in texts for match in _GROUP.finditer(text)):
        scheduler = scheduler or GROUPS.get(match[1])
    if scheduler is None:
        return ""
    return f"ConfigMap {name} configures {scheduler[0]}, and has no effect on Unisono: {scheduler[1]}"
