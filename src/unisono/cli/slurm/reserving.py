"""Reservations as ``scontrol`` writes them, as Reservation objects (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from unisono.api.base import ObjectMeta
from unisono.api.groups.calendar import MAINTENANCE, Reservation, ReservationSpec
from unisono.api.keys import NVIDIA_GPU
from unisono.api.reservations import EVERY_NODE
from unisono.api.times import format_duration, rfc3339
from unisono.cli.slurm.script import BadScript
from unisono.cli.slurm.starting import begin_at
from unisono.cli.slurm.steps.words import hosts_of
from unisono.cli.slurm.values import duration_of

_NAMES: Mapping[str, str] = {
    "reservationname": "name",
    "reservation": "name",
    "starttime": "start",
    "endtime": "end",
    "duration": "duration",
    "nodes": "nodes",
    "nodecnt": "count",
    "tres": "tres",
    "users": "users",
    "user": "users",
    "accounts": "queues",
    "account": "queues",
    "flags": "flags",
}
_REPEATED = {"HOURLY": "{m} * * * *", "DAILY": "{m} {h} * * *", "WEEKLY": "{m} {h} * * {d}"}
_OFTEN = {**_REPEATED, "WEEKDAY": "{m} {h} * * 1-5", "WEEKEND": "{m} {h} * * 0,6"}
_NEEDLESS = frozenset(("IGNORE_JOBS", "SPEC_NODES", "ANY_NODES", "FLEX", "OVERLAP"))
"""Flags for what is so in any case: pods that run stay, and reservations may overlap."""
_GPUS = re.compile(r"gres/gpu(?::[\w-]+)?")


def words_of(words: Sequence[str]) -> dict[str, str]:
    """``Name=value`` words by what they mean.

    Raises:
        BadScript: one of them means nothing here.

    """
    fields: dict[str, str] = {}
    for word in words:
        name, mark, value = word.partition("=")
        if mark and name[-1:] in "+-":
            raise BadScript(f"{word}: write {name[:-1]} with all of them.")
        meant = _NAMES.get(name.lower())
        if meant is None or not mark:
            field_names = (
                "ReservationName, StartTime, EndTime, Duration, Nodes, NodeCnt, TRES, Users, Accounts and Flags"
            )
            raise BadScript(f"{word!r} is nothing that a reservation has: write NAME=VALUE, of {field_names}.")
        fields[meant] = value
    return fields


def reservation_of(words: Sequence[str], now: float) -> tuple[Reservation, list[str]]:
    """The object that the words ask for, and what of them is left out, a sentence each.

    Args:
        words: such as ``StartTime=now+1hour``.
        now: seconds since 1970.

    Raises:
        BadScript: a word means nothing here, or its value cannot be read.

    """
    given = words_of(words)
    name = given.get("name", "").lower().replace("_", "-")
    if not name:
        raise BadScript("a reservation needs a name: ReservationName=NAME.")
    spec, notes = ReservationSpec(), list[str]()
    start = _moment("StartTime", given.get("start", "now"), now)
    spec.start = rfc3339(start)
    seconds = _seconds(given, start, now)
    spec.duration = format_duration(seconds)
    notes += _nodes(spec, given)
    spec.users, spec.queues = _listed(given, "users"), _listed(given, "queues")
    for flag in (each.upper() for each in given.get("flags", "").split(",") if each):
        if flag in ("MAINT", "MAINTENANCE"):
            spec.purpose = MAINTENANCE
        elif flag in _OFTEN:
            here = datetime.fromtimestamp(start, UTC)
            spec.schedule = _OFTEN[flag].format(m=here.minute, h=here.hour, d=here.isoweekday() % 7)
            notes.append(f"flag {flag} repeats in UTC; spec.timeZone of the object takes another zone")
        elif flag not in _NEEDLESS:
            notes.append(f"flag {flag} has no meaning here")
    if spec.purpose == MAINTENANCE and (spec.users or spec.queues):
        spec.users = spec.queues = None
        notes.append("nobody may use nodes in maintenance: Users and Accounts are left out")
    return Reservation(metadata=ObjectMeta(name=name), spec=spec), notes


def _moment(what: str, text: str, now: float) -> float:
    try:
        return begin_at(text, now)
    except BadScript:
        raise BadScript(f"{what}={text}: give now+1hour, 16:00 or 2026-01-31T16:00.") from None


def _seconds(given: Mapping[str, str], start: float, now: float) -> float:
    if "end" in given:
        return _moment("EndTime", given["end"], now) - start
    text = given.get("duration", "")
    try:
        seconds = 0 if text.lower() in ("", "infinite", "unlimited") else duration_of(text)
    except ValueError as error:
        raise BadScript(f"Duration={text}: {error}.") from None
    if seconds < 1:
        raise BadScript(
            "a reservation needs an end: EndTime=TIME or Duration=[DAYS-]HOURS:MINUTES:SECONDS, or minutes."
        )
    return float(seconds)


def _nodes(spec: ReservationSpec, given: Mapping[str, str]) -> list[str]:
    """Which nodes, and what is left out, a sentence each."""
    nodes = given.get("nodes", "")
    if nodes:
        spec.nodes = [EVERY_NODE] if nodes.upper() == "ALL" else hosts_of(nodes)
    if count := given.get("count"):
        spec.count = _number("NodeCnt", count)
    amounts: dict[str, Any] = {}
    for part in filter(None, given.get("tres", "").split(",")):
        what, _, number = part.partition("=")
        if what == "node":
            spec.count = _number("TRES=node", number)
        elif what == "cpu" or _GPUS.fullmatch(what):
            amounts["cpu" if what == "cpu" else NVIDIA_GPU] = _number(f"TRES={what}", number)
        else:
            raise BadScript(f"TRES={part}: nodes, cpu and gres/gpu are counted here.")
    if spec.count is not None and amounts:  # Slurm reserves so many nodes, and of these what TRES says
        return [f"whole nodes are reserved: {' and '.join(sorted(amounts))} beside their number count for nothing"]
    spec.amounts = amounts or None
    return []


def _number(what: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 9 or not int(text):
        raise BadScript(f"{what}={text}: a whole number from 1 on is expected.")
    return int(text)


def _listed(given: Mapping[str, str], name: str) -> list[str] | None:
    names = [each.strip() for each in given.get(name, "").split(",") if each.strip()]
    if any(each.startswith("-") for each in names):
        raise BadScript(f"{', '.join(names)}: name those who may use the nodes; nobody else may.")
    return names or None


def fields_of(reservation: Reservation) -> dict[str, object]:
    """How ``scontrol show reservation`` prints one."""
    spec, status = reservation.spec, reservation.status
    states = {"Active": "ACTIVE", "Waiting": "INACTIVE", "Over": "EXPIRED"}
    return {
        "ReservationName": reservation.metadata.name,
        "StartTime": status.window_start or spec.start or "Unknown",
        "EndTime": status.window_end or spec.end or "Unknown",
        "Duration": spec.duration or "Unknown",
        "Nodes": ",".join(status.nodes or ()) or "(null)",
        "NodeCnt": status.node_count or 0,
        "Users": ",".join(spec.users or ()) or "(null)",
        "Accounts": ",".join(spec.queues or ()) or "(null)",
        "Flags": "MAINT" if spec.purpose == MAINTENANCE else "(null)",
        "State": states.get(status.phase or "", "INACTIVE"),
    }
