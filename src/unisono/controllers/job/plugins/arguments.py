"""Arguments of job plug-ins: command-line style texts such as ``--port=23456``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from unisono.controllers.texts import whole_number
from unisono.errors import UnisonoError

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


def unknown_flags(arguments: Sequence[str], known: Collection[str]) -> list[str]:
    """Unknown flags among the arguments, each once, as they are written; so are words that follow no flag."""
    found: list[str] = []
    after_flag = False
    for argument in arguments:
        name, separator, _ = argument.lstrip("-").partition("=")
        is_flag = argument.startswith("-") or bool(separator)
        if (is_flag and name not in known) or (not is_flag and not after_flag):
            found.append(argument.partition("=")[0])
        after_flag = is_flag and not separator
    return list(dict.fromkeys(found))


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
