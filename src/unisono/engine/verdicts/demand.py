"""What the pods of one gang ask for, kind by kind: from its pods, and from its PodGroup for those that do not exist."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from unisono.api.messages import counted
from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import Vector
from unisono.engine.session.choices import choice_of
from unisono.engine.session.job_state import JobState
from unisono.engine.session.once import once
from unisono.engine.session.session import Session
from unisono.engine.verdicts.pending_pods import PodsAlike, in_order, look_at, pending_pods
from unisono.engine.verdicts.unmade_pods import one_of_many, unmade_pods


@dataclass(frozen=True, slots=True)
class Kind:
    """Pods of a gang that ask for the same.

    Attributes:
        who: ``pod bert-master-0 (role master)`` or ``each pod``, to begin a sentence with.
        count: how many of them wait.
        requests: of one, by resource name in engine units.
        rows, amounts: the same for the engine's arrays, one ``pods`` included.
        port: they need a host port, so that a node holds one of them.
        pod_class: where they may go; None where only amounts are known.
        role: name of their task or replica type.
    """

    who: str
    count: int
    requests: Mapping[str, int]
    rows: Vector
    amounts: Vector
    port: bool = False
    pod_class: PodClass | None = None
    role: str = ""


def kinds_of(session: Session, job: JobState) -> list[Kind]:
    """What waits once all actions have run, at most a few kinds; empty where it is not known or too mixed."""
    choice = choice_of(session, job)
    return _kinds_of(session, job, choice.now if choice is not None and choice.record is not job.record else ())


@once
def _kinds_of(session: Session, job: JobState, _tried: tuple[int, ...]) -> list[Kind]:
    """The same of its pods as they are tried now."""
    unmade = [_kind(one) for one in unmade_pods(session.snapshot, job.record)]
    if not job.size:
        return unmade or _of_group(session, job)
    waiting = pending_pods(job.record)
    if job.places:
        waiting = look_at([task for task in in_order(job.record.pending) if task.key not in job.places])
    made = [_kind(one) for one in waiting.groups]
    return [*made, *unmade] if made or not job.record.pending else []


def _kind(pods: PodsAlike) -> Kind:
    one, role, number = pods.pod_class, pods.role, pods.count
    if number > 1:
        who = f"each of {counted(number, 'pod')}{f' of role {role}' if role else ''}"
    elif pods.first:
        who = f"pod {pods.first}{f' (role {role})' if role else ''}"
    else:
        who = f"the pod of role {role}" if role else "its pod"
    return Kind(who, number, one.requests, one.rows, one.amounts, bool(one.host_ports), one, role)


def _of_group(session: Session, job: JobState) -> list[Kind]:
    """Equal parts of minResources, for a gang of one role whose pods do not exist yet."""
    roles, each = job.min_task_member, one_of_many(job.record)
    if not each:
        return []
    rows = {session.registry.find(name): amount for name, amount in each.items()}
    if None in rows:
        return []
    rows[session.registry.requested("pods")] = 1
    ordered = sorted((row, amount) for row, amount in rows.items() if row is not None)
    role = f" of role {next(iter(roles))}" if roles else ""
    return [
        Kind(
            f"each pod{role}",
            job.min_member,
            each,
            np.array([row for row, _ in ordered], dtype=np.intp),
            np.array([amount for _, amount in ordered], dtype=np.int64),
            role=next(iter(roles), ""),
        )
    ]
