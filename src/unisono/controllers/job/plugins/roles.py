"""What plug-ins of frameworks share: ports of containers, and what a task is in its framework."""

from __future__ import annotations

from collections.abc import Sequence

from unisono.api.core import Container, ContainerPort
from unisono.controllers.job.view import JobView, TaskView


def open_port(container: Container, name: str, number: int) -> None:
    """Declare a TCP port of a container, unless it has that number or that name already."""
    ports = container.ports or []
    if not any(port.container_port == number or port.name == name for port in ports):
        container.ports = [*ports, ContainerPort(name=name, container_port=number, protocol="TCP")]


def tasks_named(view: JobView, names: Sequence[str]) -> list[TaskView]:
    """The tasks of these names that the job has, each once, in the order of the names."""
    found = (view.task(name) for name in dict.fromkeys(names))
    return [task for task in found if task is not None]


def rank_of(view: JobView, names: Sequence[str], task: TaskView, index: int) -> int | None:
    """Number of a pod when the tasks of these names are counted through; None when its task is not among them."""
    before = 0
    for each in tasks_named(view, names):
        if each.name == task.name:
            return before + index
        before += each.replicas
    return None
