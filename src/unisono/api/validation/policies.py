"""Rules of life-cycle policies of jobs and tasks."""

from __future__ import annotations

from collections.abc import Iterator

from unisono.api.batch import POLICY_EVENTS, LifecyclePolicy
from unisono.api.field_error import FieldError, duplicate, forbidden, invalid, not_supported, required
from unisono.api.times import parse_duration

EVENTS = ("*", "JobUpdated", "PodEvicted", "PodFailed", "PodPending", "TaskCompleted", "TaskFailed", "Unknown")
ACTIONS = (
    "AbortJob",
    "CompleteJob",
    "RestartJob",
    "RestartPartition",
    "RestartPod",
    "RestartTask",
    "ResumeJob",
    "TerminateJob",
)


def validate_policies(policies: list[LifecyclePolicy] | None, path: str) -> Iterator[FieldError]:
    """Each policy is about events or an exit code, each event and code has one policy, and ``*`` stands alone."""
    events: set[str] = set()
    codes: set[int] = set()
    for index, policy in enumerate(policies or ()):
        at = f"{path}[{index}]"
        named = policy_events(policy)
        if named and policy.exit_code is not None:
            yield invalid(at, policy.exit_code, "must not specify event and exitCode simultaneously")
        elif not named and policy.exit_code is None:
            yield required(at, "either event and exitCode should be specified")
        yield from _action(policy, at)
        for event in named:
            # Unknown events are refused by the schema's enum.
            if event in POLICY_EVENTS and event not in EVENTS:
                yield invalid(at, event, f"invalid policy event, valid events are {', '.join(EVENTS)}")
            elif event in events:
                yield duplicate(at, event, f"duplicate event {event}  across different policy")
        events |= set(named)
        if policy.exit_code is not None:
            if policy.exit_code == 0:
                yield invalid(f"{at}.exitCode", 0, "0 is not a valid error code")
            if policy.exit_code in codes:
                yield duplicate(f"{at}.exitCode", policy.exit_code, f"duplicate exitCode {policy.exit_code}")
            codes.add(policy.exit_code)
        yield from _timeout(policy, at)
    if "*" in events and len(events) > 1:
        yield forbidden(path, "if there's * here, no other policy should be here")


def policy_events(policy: LifecyclePolicy) -> list[str]:
    """``event`` and ``events`` together, each once, in order."""
    return list(dict.fromkeys([*([policy.event] if policy.event else ()), *(policy.events or ())]))


def _action(policy: LifecyclePolicy, path: str) -> Iterator[FieldError]:
    if not policy.action:
        yield required(f"{path}.action", f"invalid policy action, valid actions are {', '.join(ACTIONS)}")
    elif policy.action not in ACTIONS:
        yield not_supported(f"{path}.action", policy.action, ACTIONS)


def _timeout(policy: LifecyclePolicy, path: str) -> Iterator[FieldError]:
    if not policy.timeout:
        return
    try:
        parse_duration(policy.timeout)
    except ValueError as error:
        yield invalid(f"{path}.timeout", policy.timeout, f"{error}: write it as 90s, 5m or 1h30m")
