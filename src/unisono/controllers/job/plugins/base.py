"""What a job plug-in is: it completes pods and asks for objects besides them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

from unisono.api.core import Container, EnvVar, Pod
from unisono.controllers.host_lists import variable_too_long
from unisono.controllers.job.plugins.arguments import PluginError, unknown_flags
from unisono.controllers.job.view import JobView, TaskView
from unisono.controllers.plan import Resource


class JobPlugin:
    """Base of job plug-ins; one instance serves one job in one decision.

    Class attributes:
        name: how jobs ask for it in ``spec.plugins``.
        needs: plug-ins that come with it, without arguments, when the job does not name them.
        flags: the flags that it knows, with their defaults.

    """

    name: ClassVar[str] = ""
    needs: ClassVar[tuple[str, ...]] = ()
    flags: ClassVar[Mapping[str, str]] = {}

    def __init__(self, view: JobView, arguments: Sequence[str]) -> None:
        """Read the arguments; raises PluginError when one makes no sense."""
        self.view, self._unknown = view, unknown_flags(arguments, self.flags)
        self.read(arguments)

    def read(self, arguments: Sequence[str]) -> None:
        """Take the arguments of ``spec.plugins[name]``."""

    def prepare(self, pod: Pod, task: TaskView, index: int) -> None:
        """Complete a pod that is about to be created, in place."""

    def resources(self) -> Iterable[Resource]:
        """Objects that must exist while the job is active."""
        return ()

    def remarks(self) -> Iterator[tuple[str, str]]:
        """Reason and text of what the author of the job should know."""
        if self._unknown:
            known = ", ".join(f"--{name}" for name in self.flags) or "no arguments"
            text = f"plug-in {self.name} leaves out {', '.join(self._unknown)}: it knows {known}"
            yield "UnknownPluginArgument", text


def containers(pod: Pod, *, init: bool = True) -> Iterator[Container]:
    """The containers of a pod, init containers first."""
    if init:
        yield from pod.spec.init_containers or ()
    yield from pod.spec.containers or ()


def set_env(container: Container, variable: EnvVar) -> None:
    """Set an environment variable of a container; a variable of that name gives way.

    Raises:
        PluginError: it is longer than the system takes: no container would start.

    """
    if why := variable_too_long(variable.name, variable.value or ""):
        raise PluginError(why)
    others = [env for env in container.env or () if env.name != variable.name]
    container.env = [*others, variable]
