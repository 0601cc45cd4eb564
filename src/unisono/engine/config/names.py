"""Names that a Volcano configuration may use, and what this version knows about them.

Which actions and plug-ins exist is decided by their registries alone; the list here only tells a name that Volcano (or
a later version) knows from a typing mistake.
"""

from __future__ import annotations

from unisono.engine.config.arguments import Argument

KNOWN_ACTIONS = frozenset(
    ["enqueue", "allocate", "backfill", "preempt", "reclaim", "gangpreempt", "gangreclaim", "shuffle", "defragment"]
)

_CACHE = Argument("predicateErrorCacheEnable", "bool", True, "keep filter failures per role", effective=False)
_GANG_EVICTION = (
    Argument("maxDomains", "int", 8, "HyperNodes tried at most"),
    Argument("allowWholeBundle", "bool", True, "a whole gang may be evicted at once"),
)

PLUGINS_SECTION = "plugins"
"""Name of the entry of ``configurations`` that is not for an action but for all plug-ins."""

VERDICTS_SECTION = "verdicts"
"""The same for what verdicts tell."""

OTHER_SECTIONS = {PLUGINS_SECTION: "the plug-ins", VERDICTS_SECTION: "the verdicts"}
"""Entries of ``configurations`` that are for no action, and what messages call them."""

ACTION_ARGUMENTS: dict[str, tuple[Argument, ...]] = {
    "allocate": (_CACHE,),
    "backfill": (_CACHE,),
    "reclaim": (_CACHE,),
    "preempt": (
        _CACHE,
        Argument("enableTopologyAwarePreemption", "bool", False, "try the eviction before it is decided"),
        Argument("topologyAwarePreemptWorkerNum", "int", 16, "parallel trials"),
        Argument("minCandidateNodesPercentage", "int", 10, "share of nodes tried at least"),
        Argument("minCandidateNodesAbsolute", "int", 1, "nodes tried at least"),
        Argument("maxCandidateNodesAbsolute", "int", 100, "nodes tried at most"),
    ),
    "gangpreempt": _GANG_EVICTION,
    "gangreclaim": _GANG_EVICTION,
    "defragment": (
        Argument("maxMoves", "int", 10, "pods moved for one gang at most"),
        Argument("maxGangs", "int", 1, "gangs helped in one cycle at most"),
        Argument("minRunTime", "duration", "10m", "how long a pod must have run before it is moved"),
        Argument("maxLostTime", "duration", "1h", "a pod that would lose more than this since its checkpoint stays"),
        Argument("interval", "duration", "1m", "least time between two plans"),
        Argument("maxDomains", "int", 4, "HyperNodes tried at most"),
    ),
    PLUGINS_SECTION: (Argument("timeLimit", "duration", "1s", "time that a plug-in that is not built in may take"),),
    VERDICTS_SECTION: (
        Argument(
            "names",
            "text",
            "all",
            "whose jobs and pods a verdict names: all, or namespace",
            choices=("all", "namespace"),
        ),
    ),
}

METRICS_KEYS: dict[str, str] = {
    "type": "prometheus, prometheus_adaptor or elasticsearch; absent: node load is not collected",
    "address": "where the source listens",
    "interval": "time between two collections, 30s by default",
    "tls.insecureSkipVerify": "true: accept any certificate",
    "elasticsearch.index": "index name, metricbeat-* by default",
    "elasticsearch.username": "user",
    "elasticsearch.password": "password",
    "elasticsearch.hostnameFieldName": "field with the node name, host.hostname by default",
}
