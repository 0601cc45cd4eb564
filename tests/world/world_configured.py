"""Which configuration of the scheduler may be in force, by what is committed of its ConfigMaps.

A source is a ConfigMap's data; whoever writes it tells whether it is sound, as this module reads no configuration.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

NAMESPACE, KEY = "volcano-system", "volcano-scheduler.conf"
# In the order in which they count.
NAMES = ("volcano-scheduler-config", "volcano-scheduler-configmap")
_EVICTING = {"preempt", "reclaim", "gangpreempt", "gangreclaim"}
_LEASE, _ERROR = "kube-system/unisono-scheduler-cycles", "unisono.io/configuration-error"
# Within which time a scheduler has heard of a change of its configuration (seconds).
_HEARD = 15.0

Config = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Settings:
    """What tells one configuration from another: actions and plug-ins, in order."""

    actions: tuple[str, ...]
    plugins: tuple[str, ...]

    @classmethod
    def of(cls, config: Config) -> Settings:
        """Of a configuration as users write it."""
        actions = (name.strip() for name in config["actions"].split(","))
        return cls(tuple(actions), tuple(one["name"] for tier in config["tiers"] for one in tier["plugins"]))


State = Settings | str
_GONE, _REFUSED = "gone", "refused"


@dataclass(slots=True)
class Configured:
    """The configuration that a scheduler begins with, and what its ConfigMaps said since.

    Attributes:
        base: in force where there is no ConfigMap.
        used: what a scheduler has decided with last.

    """

    base: Config
    used: Settings = field(init=False)
    _known: dict[Settings, Config] = field(default_factory=dict)
    _sound: dict[str, bool] = field(default_factory=dict)
    # What each ConfigMap was from when on; the watches of them are not ordered among each other.
    _told: dict[str, list[tuple[float, State]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """What there is before anybody has written a ConfigMap."""
        self.used = Settings.of(self.base)
        self._known[self.used] = self.base
        self._told = {name: [(0.0, _GONE)] for name in NAMES}

    # ---- what is written

    def write(self, data: Mapping[str, str], sound: bool) -> None:
        """Somebody is about to write a ConfigMap that may be used, or may not."""
        self._sound[_text(data)] = sound

    def take(self, name: str, data: Mapping[str, str] | None, now: float) -> None:
        """A ConfigMap was committed; None: it is gone."""
        if name not in NAMES:
            return
        state: State = _GONE
        if data is not None and not self._sound[_text(data)]:
            state = _REFUSED
        elif data is not None:
            config = yaml.safe_load(next(iter(data.values())))
            state = Settings.of(config)
            self._known[state] = config
        self._told[name].append((now, state))

    # ---- what follows

    @property
    def config(self) -> Config:
        """As users write it, what a scheduler has decided with last."""
        return self._known[self.used]

    @property
    def evicts(self) -> bool:
        """Whether an action was ever configured that evicts."""
        return any(_EVICTING & set(one.actions) for one in self._known)

    @property
    def always(self) -> frozenset[str]:
        """Actions and plug-ins that were in force from the first moment on."""
        return frozenset(set.intersection(*({*one.actions, *one.plugins} for one in self._known)))

    def enforced(self, now: float) -> frozenset[str]:
        """Actions and plug-ins of all configurations that may be in force or were lately."""
        lately, refused = self._lately(now)
        return frozenset(
            set.intersection(*({*one.actions, *one.plugins} for one in (self._known if refused else lately)))
        )

    def judge(self, before: Settings | None, used: Settings, evicted_by: Iterable[str], now: float) -> list[str]:
        """What is wrong with a decision; ``before``: what the same life of a scheduler had decided with."""
        self.used, words = used, f"{', '.join(used.actions)} with {', '.join(used.plugins)}"
        lately, refused = self._lately(now)
        # What is refused changes nothing; who begins then has heard of none before it.
        kept = refused and (used == before or (before is None and used == Settings.of(self.base)))
        allowed = {*lately, *(self._known if kept else ())}
        wrong = [] if used in allowed else [f"a scheduler decides with a configuration that is not in force: {words}"]
        if used not in self._known:
            self.used = Settings.of(self.base)
        strange = sorted({one for one in evicted_by if one in _EVICTING and one not in used.actions})
        return wrong + [f"pods are evicted by {one}, and the actions are {words}" for one in strange]

    def at_rest(self, leases: Mapping[str, Any]) -> set[str]:
        """What is wrong when all has been heard for long."""
        newest = next((told[-1][1] for told in self._told.values() if told[-1][1] != _GONE), Settings.of(self.base))
        found = set[str]()
        if newest != _REFUSED and self.used != newest:
            found.add(f"the newest configuration is {newest}, and the scheduler decides with {self.used}")
        told = (leases.get(_LEASE) or {"metadata": {}})["metadata"].get("annotations") or {}
        if bool(told.get(_ERROR)) != (newest == _REFUSED):
            says = told.get(_ERROR) or "nothing"
            found.add(f"the newest configuration is {newest}, and the scheduler's Lease says {says}")
        return found

    def _lately(self, now: float) -> tuple[set[Settings], bool]:
        """Those that may have been in force lately, and whether one was refused then, which keeps an earlier one."""
        found, absent, refused = set[Settings](), True, False
        for told in self._told.values():
            ends = [at for at, _ in told[1:]] + [now]
            states = [state for (_, state), end in zip(told, ends, strict=True) if end >= now - _HEARD]
            found |= {state for state in states if isinstance(state, Settings)}
            refused |= _REFUSED in states
            absent &= _GONE in states
        return found | ({Settings.of(self.base)} if absent else set()), refused


def _text(data: Mapping[str, str]) -> str:
    return json.dumps(data, sort_keys=True)
