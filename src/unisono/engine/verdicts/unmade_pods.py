"""Pods of a gang that its controller makes after admission, put into a trial so that an offer is tried on pods."""

from __future__ import annotations

from unisono.api.core import Container, PodSpec, ResourceRequirements, Toleration
from unisono.api.resources import to_wire
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.engine.verdicts.demand import one_of_many
from unisono.engine.verdicts.edit import Edit

_OWN = "node.kubernetes.io/"


def add_unmade_pods(edit: Edit, key: str, most: int) -> int:
    """Give a PodGroup without pods its minimum of them, and return how many.

    What each asks for is an equal part of minResources; none is made where that is not known (several roles) or above
    ``most``. Which taints they will tolerate is not known either: those that users put on nodes do not count against
    an offer.
    """
    record = edit.origin.jobs.get(key)
    if record is None or record.tasks:
        return 0
    record = edit.job(key)
    each = one_of_many(record)
    if record.tasks or not each or record.min_member > most:
        return 0
    taints = {taint.key or "" for facts in edit.origin.nodes.facts for taint in facts.taints}
    tolerations = [Toleration(key=name, operator="Exists") for name in sorted(taints) if not name.startswith(_OWN)]
    container = Container(name="main", resources=ResourceRequirements(requests=dict(to_wire(each))))
    spec = PodSpec(containers=[container], tolerations=tolerations)
    pod_class = edit.pod_class(PodClass(-1, spec, edit.origin.registry), "unmade")
    for number in range(record.min_member):
        task = Task(record.namespace, f"{record.name}-unmade-{number}", f"{record.uid}-unmade-{number}", pod_class)
        task.job, task.role = key, next(iter(record.min_task_member), "")
        edit.put(task)
    return record.min_member
