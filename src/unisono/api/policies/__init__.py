"""Rules of our kinds as CEL expressions, for clusters that check objects by ValidatingAdmissionPolicies.

They say what CEL can say of ``api.validation``, in the same words. Objects come here with defaults or without them.
"""

from __future__ import annotations

from unisono.api import kinds
from unisono.api.annotations import SUBMITTED
from unisono.api.keys import JOB_NAME
from unisono.api.kind_families import CRON_JOBS, HYPER_JOBS, JOB_FLOWS, JOB_TEMPLATES
from unisono.api.policies.jobs import (
    HAS_BUDGET,
    QUEUE_VARIABLES,
    budget_rules,
    cron_job_rules,
    hyper_job_rules,
    job_change_rules,
    job_flow_rules,
    job_rules,
    pod_group_rules,
    queue_removal_rules,
    queue_rules,
)
from unisono.api.policies.rule import (
    FOR_ANOTHER,
    LEAVES_GROUP,
    OF_THE_SYSTEM,
    Policy,
    command_rules,
    group_rules,
    priority_rules,
    user_rules,
)

POLICIES: tuple[Policy, ...] = (
    Policy(kinds.JOBS, "jobs", {"spec": "object.spec"}, job_rules("spec")),
    Policy(kinds.JOBS, "job-changes", {"spec": "object.spec"}, job_change_rules(), ("UPDATE",)),
    Policy(kinds.POD_GROUPS, "podgroups", {"spec": "object.spec"}, pod_group_rules()),
    Policy(kinds.QUEUES, "queues", QUEUE_VARIABLES, queue_rules(), annotations=True),
    Policy(kinds.QUEUES, "queue-removal", {}, queue_removal_rules(), ("DELETE",)),
    Policy(
        CRON_JOBS,
        "cronjobs",
        {"spec": "object.spec.jobTemplate.spec"},
        (*cron_job_rules(), *job_rules("spec.jobTemplate.spec")),
    ),
    Policy(JOB_TEMPLATES, "jobtemplates", {"spec": "object.spec"}, job_rules("spec")),
    Policy(JOB_FLOWS, "jobflows", {"spec": "object.spec"}, job_flow_rules()),
    # Pods of a Job have the budget of their gang, which says it itself.
    Policy(kinds.PODS, "pods", {}, budget_rules(), ("CREATE",), only_if=HAS_BUDGET, without_label=JOB_NAME),
    Policy(HYPER_JOBS, "hyperjobs", {"spec": "object.spec"}, hyper_job_rules()),
)

_OTHERS = tuple(kind for kind in SUBMITTED if kind is not kinds.POD_GROUPS)
RIGHTS: tuple[Policy, ...] = (
    Policy(kinds.COMMANDS, "commands", {}, command_rules()),
    # A server compares every request with every policy, so there are few of them.
    Policy(_OTHERS[0], "users", {}, user_rules(), only_if=FOR_ANOTHER, also=_OTHERS[1:]),
    Policy(
        kinds.POD_GROUPS,
        "podgroup-user",
        {},
        (*user_rules(), *priority_rules()),
        only_if=f"{FOR_ANOTHER} || {OF_THE_SYSTEM}",
    ),
)
"""Rules about who asks: they refuse with Forbidden, and hold for objects on their way out too."""

RUNNING: tuple[Policy, ...] = (
    Policy(kinds.PODS, "group-of-pods", {}, group_rules(), ("UPDATE",), only_if=LEAVES_GROUP),
)
"""The same about pods that have a node; a server that cannot evaluate them lets pods pass."""

__all__ = ["POLICIES", "RIGHTS", "RUNNING", "Policy"]
