"""What the policies of a ``batch/v1`` Job say about its pods: failures that count, early success (pure)."""

from __future__ import annotations

from collections.abc import Set

from unisono.api.core import Pod
from unisono.api.groups.batch_v1 import PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement, SuccessPolicy
from unisono.api.index_lists import parse_indexes
from unisono.api.pod_states import container_statuses
from unisono.controllers.pod_facts import condition

COUNT = "Count"


def judge(policy: PodFailurePolicy | None, pod: Pod) -> tuple[str, str]:
    """What the first rule that fits says about a failed pod.

    Returns:
        the action, ``Count`` where no rule fits, and for FailJob the message of the Job's failure.

    """
    for number, rule in enumerate((policy.rules if policy is not None else None) or ()):
        found = ""
        if rule.on_exit_codes is not None:
            found = _exit_code(pod, rule.on_exit_codes)
        for pattern in rule.on_pod_conditions or ():
            have = condition(pod, pattern.type)
            if have is not None and have.status == (pattern.status or "True"):
                found = f"Pod {pod.key} has condition {pattern.type}"
                break
        if found:
            return rule.action, f"{found} matching {rule.action} rule at index {number}"
    return COUNT, ""


def fulfilled_rule(policy: SuccessPolicy | None, completed: Set[int]) -> int | None:
    """Number of the first rule of the success policy that these completed indexes fulfil."""
    for number, rule in enumerate((policy.rules if policy is not None else None) or ()):
        done = len(completed)
        if rule.succeeded_indexes is not None:
            wanted = parse_indexes(rule.succeeded_indexes)
            done = sum(index in wanted for index in completed)
            needed = wanted.total if rule.succeeded_count is None else rule.succeeded_count
        else:
            needed = rule.succeeded_count or 0
        if done >= needed:
            return number
    return None


def _exit_code(pod: Pod, wanted: PodFailurePolicyOnExitCodesRequirement) -> str:
    for each in container_statuses(pod):
        if wanted.container_name is not None and each.name != wanted.container_name:
            continue
        code = each.state.terminated.exit_code if each.state.terminated is not None else None
        if code and (code in (wanted.values or ())) == (wanted.operator == "In"):
            return f"Container {each.name} for pod {pod.key} failed with exit code {code}"
    return ""
