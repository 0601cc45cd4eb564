"""Jobs in Python: ``Job("train", queue="gpu").task("worker", replicas=4, command=["python", "train.py"], cpu=2)``."""

from __future__ import annotations

import copy
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from unisono.api.annotations import FLEET
from unisono.api.keys import NVIDIA_GPU
from unisono.api.kinds import JOBS
from unisono.sdk.errors import BadWork

DEFAULT_IMAGE = f"python:{sys.version_info.major}.{sys.version_info.minor}"
"""Image of tasks that name none; a node that runs pods as processes does not read it."""

Amount = int | float | str

_SINGLE_QUOTED = re.compile(r"'[^']*'")
_DOUBLE_QUOTED = re.compile(r'"(?:\\.|[^"\\])*"')
_REPLACED = re.compile(r"(?<!\\)(`|\$[A-Za-z_{(])")
_OPERATOR_OR_WILDCARD = re.compile(r"(?<!\\)[|&;<>()*?\n]|(?:^|\s)~(?:/|\s|$)")
RestartPolicy = Literal["Never", "OnFailure", "Always"]


class Job:
    """A job that is put together step by step; every method answers the job itself.

    Args:
        name: of the job; one that ends with ``-`` is completed by the server.
        queue: where it waits.
        namespace: None for the client's.
        min_available: pods that must run together; None for all.
        priority_class: name of a PriorityClass.
        max_retry: restarts before the job fails.
        ttl_seconds: the job is deleted so long after its end.
        labels, annotations: of the job.
        fleet: Fleet of a hub to whose members the job goes; None for no such bound.
    """

    def __init__(
        self,
        name: str,
        queue: str = "default",
        *,
        namespace: str | None = None,
        min_available: int | None = None,
        priority_class: str | None = None,
        max_retry: int | None = None,
        ttl_seconds: int | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        fleet: str | None = None,
    ) -> None:
        if fleet:
            annotations = {**(annotations or {}), FLEET: fleet}
        key = "generateName" if name.endswith("-") else "name"
        self._metadata = _given(
            {key: name, "namespace": namespace, "labels": _copy(labels), "annotations": _copy(annotations)}
        )
        self._spec: dict[str, Any] = _given(
            {
                "queue": queue,
                "minAvailable": min_available,
                "priorityClassName": priority_class,
                "maxRetry": max_retry,
                "ttlSecondsAfterFinished": ttl_seconds,
            }
        )
        self._tasks: list[dict[str, Any]] = []

    def task(
        self,
        name: str,
        *,
        command: str | Sequence[str],
        args: str | Sequence[str] = (),
        replicas: int = 1,
        min_available: int | None = None,
        image: str = DEFAULT_IMAGE,
        cpu: Amount | None = None,
        memory: Amount | None = None,
        memory_limit: Amount | None = None,
        gpus: int | None = None,
        resources: Mapping[str, Amount] | None = None,
        env: Mapping[str, str] | None = None,
        working_dir: str | None = None,
        restart_policy: RestartPolicy = "Never",
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        pod: Mapping[str, Any] | None = None,
        container: Mapping[str, Any] | None = None,
    ) -> Job:
        """Add a task: ``replicas`` equal pods of one container.

        Args:
            name: of the task; part of the pods' names.
            command: what the container runs: its words, or one text that is split as a shell splits it.
            args: further words of it, in the same way.
            replicas: number of pods.
            min_available: pods of this task that the gang needs; None for all.
            image: of the container.
            cpu: cores that each pod requests: ``2``, ``0.5`` or ``"500m"``.
            memory: that each pod requests: bytes, or ``"4Gi"``.
            memory_limit: a pod that needs more ends with ``OOMKilled``.
            gpus: whole NVIDIA cards per pod.
            resources: further resources by name, each as request and limit.
            env: environment variables.
            working_dir: folder in which the container starts.
            restart_policy: of the pods.
            labels: of the pods.
            annotations: of the pods.
            pod: further fields of the pod's spec, such as ``nodeSelector``.
            container: further fields of the container, such as ``volumeMounts``.

        Raises:
            BadWork: the job has a task of that name, or the command needs a shell.
        """
        if any(known["name"] == name for known in self._tasks):
            raise BadWork(f"the job has a task {name!r} already: give this one another name.")
        further = {**(resources or {}), **({NVIDIA_GPU: gpus} if gpus else {})}
        limits = {} if memory_limit is None else {"memory": memory_limit}
        requirements = _resources(cpu, memory, further, limits)
        words, further_words = shell_words(command, "command"), shell_words(args, "args")
        main = _container(name, image, words, further_words, working_dir, env, requirements)
        template = {
            "metadata": _given({"labels": _copy(labels), "annotations": _copy(annotations)}),
            "spec": {"restartPolicy": restart_policy, "containers": [{**main, **(container or {})}], **(pod or {})},
        }
        self._tasks.append(
            _given({"name": name, "replicas": replicas, "minAvailable": min_available, "template": template})
        )
        return self

    def divide(self, task: str, sizes: Sequence[tuple[str, int]]) -> Job:
        """Make several tasks of one, in its place: alike but for their names and numbers of pods.

        Raises:
            BadWork: the job has no such task.
        """
        self.pod(task)
        place = next(at for at, known in enumerate(self._tasks) if known["name"] == task)
        self._tasks[place : place + 1] = [
            {**copy.deepcopy(self._tasks[place]), "name": name, "replicas": replicas} for name, replicas in sizes
        ]
        return self

    def plugin(self, name: str, *arguments: str) -> Job:
        """Use a job plug-in: ``plugin("pytorch", "--port=29500")``."""
        self._spec.setdefault("plugins", {})[name] = list(arguments)
        return self

    def policy(
        self,
        action: str,
        *,
        event: str | None = None,
        exit_code: int | None = None,
        timeout: str | None = None,
        first: bool = False,
    ) -> Job:
        """Do ``action`` when ``event`` happens, or when a pod ends with ``exit_code``: ``("RestartJob", "PodFailed")``.

        Args:
            action: such as ``RestartJob``, ``TerminateJob`` or ``CompleteJob``.
            event: such as ``PodFailed``, ``PodEvicted`` or ``TaskCompleted``.
            exit_code: instead of an event.
            timeout: wait so long before, such as ``"5m"``.
            first: it comes before the policies that the job has; else after them.
        """
        rule = _given({"action": action, "event": event, "exitCode": exit_code, "timeout": timeout})
        rules = self._spec.setdefault("policies", [])
        rules.insert(0 if first else len(rules), rule)
        return self

    def label(self, labels: Mapping[str, str]) -> Job:
        """Add labels to the job itself."""
        self._metadata.setdefault("labels", {}).update(labels)
        return self

    def annotate(self, annotations: Mapping[str, str]) -> Job:
        """Add annotations to the job itself."""
        self._metadata.setdefault("annotations", {}).update(annotations)
        return self

    def containers(self, task: str) -> list[dict[str, Any]]:
        """The containers of a task, to change what `task` has no argument for.

        Raises:
            BadWork: the job has no such task.
        """
        container_specs: list[dict[str, Any]] = self.pod(task)["containers"]
        return container_specs

    def pod(self, task: str) -> dict[str, Any]:
        """The pod's spec of a task, to change what `task` has no argument for.

        Raises:
            BadWork: the job has no such task.
        """
        for candidate in self._tasks:
            if candidate["name"] == task:
                pod_spec: dict[str, Any] = candidate["template"]["spec"]
                return pod_spec
        raise BadWork(f"the job has no task {task!r}.")

    def manifest(self) -> dict[str, Any]:
        """The job as a Kubernetes object.

        Raises:
            BadWork: the job has no task.
        """
        if not self._tasks:
            name = self._metadata.get("name") or self._metadata.get("generateName")
            raise BadWork(f"the job {name} has no task: add one with .task(...).")
        spec = {**self._spec, "tasks": list(self._tasks)}
        return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": dict(self._metadata), "spec": spec}


def _container(
    name: str,
    image: str,
    command: Sequence[str],
    args: Sequence[str],
    working_dir: str | None,
    env: Mapping[str, str] | None,
    resources: dict[str, Any] | None,
) -> dict[str, Any]:
    return _given(
        {
            "name": name,
            "image": image,
            "command": list(command),
            "args": list(args) or None,
            "workingDir": working_dir,
            "env": [{"name": key, "value": value} for key, value in (env or {}).items()] or None,
            "resources": resources,
        }
    )


def shell_words(text: str | Sequence[str], field: str) -> list[str]:
    """Words of a command; one text is split as a shell splits it.

    Args:
        text: words, or one text.
        field: name of the argument, for errors.

    Raises:
        BadWork: a quotation mark is not closed, or the text needs a shell: it has a pipe, a variable or a wildcard.
    """
    if not isinstance(text, str):
        return list(text)
    if _needs_shell(text):
        raise BadWork(f"{field} needs a shell: give the words ['sh', '-c', {text!r}].")
    try:
        return shlex.split(text)
    except ValueError as error:
        raise BadWork(f"{field} cannot be split into words ({error}): {text}") from None


def _needs_shell(text: str) -> bool:
    """Whether a shell would do more than split: run several commands, or replace variables and wildcards."""
    without_single = _SINGLE_QUOTED.sub("", text)
    without_quoted = _DOUBLE_QUOTED.sub("", without_single)
    return bool(_REPLACED.search(without_single) or _OPERATOR_OR_WILDCARD.search(without_quoted))


def _resources(
    cpu: Amount | None, memory: Amount | None, further: Mapping[str, Amount], limited: Mapping[str, Amount]
) -> dict[str, Any] | None:
    limits = {name: quantity(amount) for name, amount in {**further, **limited}.items()}
    requests = {
        **{name: quantity(amount) for name, amount in (("cpu", cpu), ("memory", memory)) if amount is not None},
        **{name: quantity(amount) for name, amount in further.items()},
    }
    return _given({"requests": requests or None, "limits": limits or None}) or None


def resources_of(*, cpu: Amount | None, memory: Amount | None, gpus: int | None) -> dict[str, Any] | None:
    """What a pod of `Job.task` requests and may use, where ``memory`` is also the limit."""
    further = {NVIDIA_GPU: gpus} if gpus else {}
    return _resources(cpu, memory, further, {} if memory is None else {"memory": memory})


def quantity(amount: Amount) -> str:
    """A number as a Kubernetes quantity: ``2`` is ``"2"``, ``0.5`` is ``"500m"``; texts stay as they are."""
    if isinstance(amount, str):
        return amount
    return str(int(amount)) if amount == int(amount) else f"{round(amount * 1000)}m"


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _copy(values: Mapping[str, str] | None) -> dict[str, str] | None:
    return dict(values) if values else None
