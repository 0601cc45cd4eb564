"""Pods of a gang that its controller makes after admission, put into a trial so that an offer is tried on pods."""

from __future__ import annotations

from collections.abc import Mapping

from unisono.api.core import Container, PodSpec, ResourceRequirements, Toleration
from unisono.api.resources import to_wire
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Job
from unisono.engine.plugins.admission_limits import amount_of, concerns, plain
from unisono.engine.session.job_state import JobState
from unisono.engine.verdicts.demand import one_of_many
from unisono.engine.verdicts.edit import Edit
from unisono.engine.verdicts.unmade_parts import Unmade, imagined

_OWN = "node.kubernetes.io/"


def add_unmade_pods(edit: Edit, key: str, unmade: list[Unmade], most: int) -> int:
    """Give a PodGroup the pods of its smallest gang that do not exist, and return how many.

    Where its roles are not known each asks for an equal part of minResources; none is made where those do not tell, or
    above ``most``. Which taints such pods will tolerate is not known either: those that users put on nodes do not count
    against an offer.
    """
    known = edit.origin.jobs.get(key)
    if known is None:
        return 0
    if not unmade and not known.tasks:
        unmade = _equal_parts(edit, known)
    number = sum(one.number for one in unmade)
    if number > most:
        return 0
    for task in imagined(known, unmade, number):
        task.pod_class = edit.pod_class(task.pod_class, "unmade")
        edit.put(task)
    return number


def drop_refused_pods(edit: Edit, job: JobState, counted: Mapping[str, Mapping[str, int]]) -> None:
    """Take away those of the pods that were put in for which the namespace's ResourceQuotas have no room.

    ``counted`` has what the pods of each namespace hold, for quotas whose status does not say it.
    """
    quotas = [quota for quota in edit.quotas(job.namespace).values() if concerns(quota, job.record)]
    if not quotas or job.key not in edit.origin.jobs:
        return
    taken = [dict(quota.used if quota.used is not None else counted[job.namespace]) for quota in quotas]
    used = [{name: amount_of(held, name) for name in quota.hard} for quota, held in zip(quotas, taken, strict=True)]
    for task in list(edit.job(job.key).tasks.values()):
        if task.key in edit.origin.tasks:
            continue
        asked = {**task.pod_class.requests, "pods": 1}
        needs = [{name: amount_of(asked, name) for name in quota.hard} for quota in quotas]
        after = [{name: have[name] + need[name] for name in have} for have, need in zip(used, needs, strict=True)]
        if any(
            need[name] > 0 and have[name] > quota.hard[name]
            for quota, need, have in zip(quotas, needs, after, strict=True)
            for name in have
            if not plain(name).startswith(("limits.", "count/"))
        ):
            edit.drop(task.key)
        else:
            used = after


def _equal_parts(edit: Edit, record: Job) -> list[Unmade]:
    each = one_of_many(record)
    if not each:
        return []
    taints = {taint.key or "" for facts in edit.origin.nodes.facts for taint in facts.taints}
    tolerations = [Toleration(key=name, operator="Exists") for name in sorted(taints) if not name.startswith(_OWN)]
    container = Container(name="main", resources=ResourceRequirements(requests=dict(to_wire(each))))
    spec = PodSpec(containers=[container], tolerations=tolerations)
    return [Unmade(next(iter(record.min_task_member), ""), record.min_member, PodClass(-1, spec, edit.origin.registry))]
