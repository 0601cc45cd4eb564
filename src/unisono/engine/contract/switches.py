"""Which switch of the configuration turns which hook of a plug-in off."""

from __future__ import annotations

from unisono.engine.answers import Purpose

HOOK_FLAGS: dict[str, str] = {
    "queue_key": "queue_order",
    "job_key": "job_order",
    "task_key": "task_order",
    "enqueueable": "job_enqueued",
    "enqueued": "job_enqueued",
    "admissible": "job_enqueued",
    "enqueued_alike": "job_enqueued",
    "pipelined": "job_pipelined",
    "valid": "",
    "ready": "job_ready",
    "missing": "job_ready",
    "starving": "job_starving",
    "overused": "overused",
    "underused": "overused",
    "allocatable": "allocatable",
    "headroom": "allocatable",
    "preemptive": "preemptive",
    "prefilter": "predicate",
    "static_filter": "predicate",
    "filter": "predicate",
    "filter_at": "predicate",
    "score_at": "node_order",
    "static_score": "node_order",
    "score": "node_order",
    "domain_filter": "predicate",
    "batch_score": "node_order",
    "line_score": "node_order",
    "victims": "",
    "shuffled": "victim",
    "retained": "victim",
    "protected": "",
    "allowance": "",
    "spared": "",
    "lost_work": "",
    "victim_jobs": "",
    "victim_queue_key": "",
    "group_key": "sub_job_order",
    "group_ready": "sub_job_ready",
    "group_pipelined": "sub_job_pipelined",
    "domain_gradients": "hyper_node_gradient",
    "domain_points": "hyper_node_order",
    "group_score": "node_order",
    "placed": "",
    "removed": "",
    "moved": "",
    "annotations": "",
    "preparations": "predicate",
}
"""Hook to the attribute of ``Flags`` that switches it; ``""`` is always on."""

VICTIM_FLAGS: dict[Purpose, str] = {
    Purpose.PREEMPT: "preemptable",
    Purpose.RECLAIM: "reclaimable",
    Purpose.GANG_PREEMPT: "",
    Purpose.GANG_RECLAIM: "",
    Purpose.SHUFFLE: "victim",
}
