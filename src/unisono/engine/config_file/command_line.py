"""Reads a configuration that consists of flags of a scheduler's command line, one on a line.

Guides on tuning Volcano put such flags where its configuration file stands. Each is read as what it means here; most
of them tune parts that work in another way, and have no effect.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from unisono.api.times import parse_duration
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.problems import Problems
from unisono.errors import ConfigError

_LINE = re.compile(r"--(?P<name>[a-z][a-z0-9-]*)(?:(?:=|\s+)(?P<value>\S.*))?")
_MOST_BINDS = 4096


def _whole(text: str) -> None:
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < 1:
        raise ValueError("must be a whole number above 0")


def _duration(text: str) -> None:
    try:
        parse_duration(text)
    except ValueError:
        raise ValueError("must be a duration such as 30s") from None


def _always(text: str) -> None:
    if text not in ("", "true"):
        raise ValueError("cannot be turned off: jobs are always scheduled by their queues")


def _bool(text: str) -> None:
    if text not in ("", "true", "false"):
        raise ValueError("must be true or false")


def _binds(text: str) -> None:
    _whole(text)
    if int(text) > _MOST_BINDS:
        raise ValueError(f"must be at most {_MOST_BINDS}")


@dataclass(frozen=True, slots=True)
class CommandFlag:
    """One flag.

    Attributes:
        name: as it is written behind ``--``.
        check: raises ValueError with what a value must be.
        note: why it has no effect; empty where it has one.

    """

    name: str
    check: Callable[[str], None]
    note: str = ""


BIND_WORKERS = "bind-worker-threads"
"""Binds under way at a time."""
STRICT = "volcano-strict"
"""The default configuration is Volcano's: bounds that its plug-ins do not enforce have no effect."""
_ADDED = frozenset(("deviceshare", "network-topology-aware", "user-limits"))
"""Plug-ins of the default configuration that Volcano's has not."""

COMMAND_FLAGS: dict[str, CommandFlag] = {
    flag.name: flag
    for flag in (
        CommandFlag("enable-queue-schedule", _always, "jobs are always scheduled by their queues"),
        CommandFlag("cache-pod-group-interval", _duration, "PodGroups are watched, and every change is seen at once"),
        CommandFlag("scheduler-worker-threads", _whole, "all nodes are judged together, as arrays"),
        CommandFlag(BIND_WORKERS, _binds),
        CommandFlag(STRICT, _bool),
        CommandFlag("min-resync-interval", _duration, "watches miss nothing, so that nothing is listed again"),
    )
}


def is_command_line(text: str) -> bool:
    """Whether the first line that is no comment is a flag."""
    first = next((line for line in map(str.strip, text.splitlines()) if line and not line.startswith("#")), "")
    return bool(_LINE.fullmatch(first))


def read_command_line(text: str, file: str, default: SchedulerConfig, problems: Problems) -> SchedulerConfig:
    """The default configuration with what the flags change.

    ``problems`` collects each line that is no flag, that names an unknown one, or whose value is wrong.
    """
    config, notes, seen = default, ["no actions and tiers: the default ones are in force"], dict[str, int]()
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        if not line or line.startswith("#"):
            continue
        with problems.kept():
            flag, value = _flag(line, number, file)
            name = flag.name
            if name in seen:
                again = f"--{name} is given twice (also on line {seen[name]})"
                raise ConfigError(again, file=file, line=number, key=name)
            seen[name] = number
            try:
                flag.check(value)
            except ValueError as error:
                raise ConfigError(f"--{name} {error}", file=file, line=number, key=name) from None
            if flag.note:
                notes.append(f"line {number}: --{name} has no effect: {flag.note}")
            elif name == BIND_WORKERS:
                config = replace(config, bind_concurrency=int(value))
            elif value != "false":
                config = _strict(config)
                notes.append(f"--{STRICT}: hard bounds on the network and limits of users are not enforced")
    return replace(config, notes=tuple(notes))


def _strict(config: SchedulerConfig) -> SchedulerConfig:
    """Without what the default configuration adds to Volcano's."""
    tiers = (tuple(plugin for plugin in tier if plugin.name not in _ADDED) for tier in config.tiers)
    return replace(config, tiers=tuple(tuple(replace(plugin, arguments={}) for plugin in tier) for tier in tiers))


def _flag(line: str, number: int, file: str) -> tuple[CommandFlag, str]:
    """The flag that a line names, and its value as written."""
    found = _LINE.fullmatch(line)
    if found is None:
        raise ConfigError(f"{line[:80]!r} is no flag; write --NAME=VALUE", file=file, line=number)
    name = found["name"]
    if name not in COMMAND_FLAGS:
        near = difflib.get_close_matches(name, COMMAND_FLAGS, n=1, cutoff=0.6)
        meant = f"; did you mean --{near[0]}?" if near else ""
        raise ConfigError(f"unknown flag --{name}{meant}", file=file, line=number, key=name)
    return COMMAND_FLAGS[name], (found["value"] or "").strip()
