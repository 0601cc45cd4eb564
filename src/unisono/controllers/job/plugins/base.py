"""What a job plug-in is: it completes pods and asks for objects besides; and the arguments that it reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

from unisono.api.core import Container, EnvVar, Pod
from unisono.controllers.job.view import JobView, TaskView
from unisono.controllers.owners import variable_too_long, whole_number
from unisono.controllers.plan import Resource
from unisono.errors import UnisonoError
from unisono.jobkinds.idle_fields import left_out, unknown_flags

# Arguments of job plug-ins: command-line style texts such as ``--port=23456``.

_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})


class PluginError(UnisonoError):
    """A job plug-in is unknown or cannot serve this job; the sentence says what to change in the job."""


def read_flags(arguments: Sequence[str], defaults: Mapping[str, str]) -> dict[str, str]:
    """Values by flag name, defaults included.

    ``--name=value``, ``-name=value`` and ``--name value`` are the same. A flag without a value means ``true``.
    Flags that the plug-in does not know are left out: jobs written for other versions go on working.
    """
    values = dict(defaults)
    waiting = ""
    for argument in arguments:
        if waiting and not argument.startswith("-"):
            _put(values, waiting, argument)
            waiting = ""
            continue
        if waiting:
            _put(values, waiting, "true")
            waiting = ""
        name, separator, value = argument.lstrip("-").partition("=")
        if separator:
            _put(values, name, value)
        elif argument.startswith("-"):
            waiting = name
    if waiting:
        _put(values, waiting, "true")
    return values


def flag_bool(plugin: str, values: Mapping[str, str], name: str) -> bool:
    """The boolean value of a flag, in the spellings of Go. Raises PluginError."""
    text = values[name]
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise PluginError(f"plug-in {plugin}: --{name} is {text!r}; write true or false.")


def flag_port(plugin: str, values: Mapping[str, str], name: str) -> int:
    """The port number of a flag. Raises PluginError."""
    port = whole_number(values[name]) or 0
    if 1 <= port <= 65535:
        return port
    raise PluginError(f"plug-in {plugin}: --{name} is {values[name]!r}; write a port from 1 to 65535.")


def flag_seconds(plugin: str, values: Mapping[str, str], name: str) -> int:
    """The whole number of seconds of a flag, with or without a trailing ``s``. Raises PluginError."""
    seconds = whole_number(values[name].removesuffix("s"))
    if seconds is not None:
        return seconds
    raise PluginError(f"plug-in {plugin}: --{name} is {values[name]!r}; write a number of seconds.")


def _put(values: dict[str, str], name: str, value: str) -> None:
    if name in values:
        values[name] = value


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
            yield "UnknownPluginArgument", left_out(self.name, self._unknown)


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
