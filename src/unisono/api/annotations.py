"""Annotations and labels of Unisono's own; Volcano's and Kubernetes' keys stand in ``api.keys``."""

from __future__ import annotations

from typing import Final

WORKING_DIRECTORY: Final = "unisono.io/working-directory"
"""On a pod: folder in which containers without ``workingDir`` start, on a node that runs them as processes."""

READABLE_DIRECTORIES: Final = "unisono.io/readable-directories"
"""On a namespace: folders, separated by colons, that its pods see although only root may enter the way to them."""

VERDICT: Final = "unisono.io/verdict"
"""On a PodGroup: the latest verdict as JSON."""

SCHEDULER_CYCLES: Final = "unisono.io/scheduler-cycles"
"""On a Lease (label): a scheduler renews it when its cycles end."""

SCHEDULER_NAMES: Final = "unisono.io/scheduler-names"
"""On such a Lease: the names that pods give as ``schedulerName``, separated by commas."""

CONFIGURATION_ERROR: Final = "unisono.io/configuration-error"
"""On such a Lease: why the scheduler refuses its newest configuration; the one before it stays in force."""

RUN_SECONDS: Final = "unisono.io/run-seconds"
"""On a pod: how long a simulated node runs it."""

MIN_RUN_TIME: Final = "unisono.io/min-run-time"
"""On a pod, a PodGroup or a Queue: how long a pod must have run before it may be evicted, such as ``10m``."""

CHECKPOINT_TIME: Final = "unisono.io/checkpoint-time"
"""On a pod or a PodGroup: when it last saved its work, as in ``2026-01-02T00:00:00Z``."""

MAX_EVICTIONS: Final = "unisono.io/max-evictions"
"""On a Queue: how many of its pods may be evicted within the window of plug-in ``eviction-guard``."""

EXIT_CODE: Final = "unisono.io/exit-code"
"""On a pod: how it ends on a simulated node."""

USAGE_CPU: Final = "unisono.io/usage-cpu"
"""On a node: percent of its CPUs that was in use lately, such as ``62.5``."""

USAGE_MEMORY: Final = "unisono.io/usage-memory"
"""On a node: percent of its memory that was in use lately."""

USAGE_TIME: Final = "unisono.io/usage-time"
"""On a node: when that was measured, as in ``2026-01-02T00:00:00Z``."""

CARDS: Final = "unisono.io/gpu-cards"
"""On a pod: numbers of the cards that each of its containers shares, ``0;1,2``, where the vendor has no such key."""

SHARED_NETWORK: Final = "unisono.io/shared-network"
"""On a node (label): its pods share the machine's ports, instead of each having its own."""

SIMULATED: Final = "unisono.io/simulated"
"""On a node (label): it runs no containers; its pods end after ``unisono.io/run-seconds``."""

CYCLES_LEASE: Final = "unisono-scheduler-cycles"
"""Name of the Lease that a scheduler renews as long as its cycles end."""
