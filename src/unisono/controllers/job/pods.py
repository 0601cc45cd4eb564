"""The pods of a job, built from its task templates."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from unisono.api.annotations import WORKING_DIRECTORY
from unisono.api.base import ObjectMeta
from unisono.api.core import Pod, PodTemplateSpec
from unisono.api.keys import (
    GROUP_NAME,
    JOB_NAME,
    JOB_NAMESPACE,
    JOB_RETRY_COUNT,
    JOB_VERSION,
    NUMA_TOPOLOGY_POLICY,
    PARTITION_ID,
    QUEUE_NAME,
    TASK_INDEX,
    TASK_SPEC,
    TEMPLATE_UID,
)
from unisono.api.kinds import JOBS
from unisono.controllers import keys
from unisono.controllers.job.plugins.base import JobPlugin
from unisono.controllers.job.view import JobView, TaskView
from unisono.controllers.job.volumes import mount
from unisono.controllers.owners import owned_by

_DECODER = msgspec.json.Decoder(PodTemplateSpec)


class PodBuilder:
    """Makes the pods of one job at its present version."""

    def __init__(self, view: JobView, plugins: Sequence[JobPlugin]) -> None:
        self._view, self._plugins = view, plugins
        # Each pod is decoded from the template's bytes: plug-ins may then change all of it.
        self._templates = {task.name: msgspec.json.encode(task.template) for task in view.tasks}

    def build(self, task: TaskView, index: int) -> Pod:
        """Pod ``index`` of the task. Raises PluginError when a plug-in cannot serve it."""
        view = self._view
        template = _DECODER.decode(self._templates[task.name])
        pod = Pod(
            metadata=ObjectMeta(
                name=task.pod_name(index),
                namespace=view.namespace,
                labels=(template.metadata.labels or {}) | self._labels(task, index),
                annotations=self._taken_over() | (template.metadata.annotations or {}) | self._annotations(task, index),
                owner_references=[owned_by(JOBS, view.job)],
                finalizers=template.metadata.finalizers,
            ),
            spec=template.spec,
        )
        spec = pod.spec
        spec.scheduler_name = spec.scheduler_name or view.scheduler_name
        spec.priority_class_name = spec.priority_class_name or view.spec.priority_class_name
        mount(view, pod)
        for plugin in self._plugins:
            plugin.prepare(pod, task, index)
        return pod

    def _labels(self, task: TaskView, index: int) -> dict[str, str]:
        view = self._view
        labels = {
            TASK_SPEC: task.name,
            TASK_INDEX: str(index),
            JOB_NAME: view.name,
            JOB_NAMESPACE: view.namespace,
            QUEUE_NAME: view.queue,
        }
        partition = task.partition_of(index)
        if partition is not None:
            labels[PARTITION_ID] = partition
        return labels | keys.inherited_labels(view.job.metadata.labels or {})

    def _annotations(self, task: TaskView, index: int) -> dict[str, str]:
        view = self._view
        annotations = {
            TASK_SPEC: task.name,
            TASK_INDEX: str(index),
            JOB_NAME: view.name,
            QUEUE_NAME: view.queue,
            JOB_VERSION: str(view.version),
            JOB_RETRY_COUNT: str(view.retry_count),
            TEMPLATE_UID: f"{view.name}-{task.name}",
            GROUP_NAME: view.pod_group_name,
        }
        if task.spec.topology_policy:
            annotations[NUMA_TOPOLOGY_POLICY] = task.spec.topology_policy
        return annotations | keys.inherited_annotations(view.job.metadata.annotations or {})

    def _taken_over(self) -> dict[str, str]:
        """Annotations of the job that stand for its pods unless their template says otherwise."""
        given = self._view.job.metadata.annotations or {}
        return {key: given[key] for key in (WORKING_DIRECTORY,) if key in given}
