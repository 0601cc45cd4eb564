"""Which rows of a data file can be believed, and what is wrong with the others. Pure.

The history is a second copy of what changed lately, and the index of keys a second list of what there must be: they
confirm the rows, name those that are lost, and give back those that are damaged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from unisono.apiserver.storage.entry import Key
from unisono.apiserver.storage.errors import Finding
from unisono.apiserver.storage.rows import EventRow, ObjectRow, describe, wrong_event, wrong_object

META = ("revision", "compacted")
META_2 = (*META, "running", "store")


@dataclass(frozen=True, slots=True)
class Rejected:
    """Bytes that are not served: of a row, or of what cannot even be read as one."""

    what: str
    why: str
    row: tuple[Any, ...]
    page: int = 0


@dataclass(slots=True)
class Contents:
    """What was read of a file, believed or not.

    Attributes:
        version: schema version.
        objects: rows of ``objects``.
        events: rows of ``events``, in the order in which they are stored.
        meta: rows of ``meta``.
        keys: what there must be, by the index; None where rows were read by SQLite, which has compared them.
        problems: what is known to be wrong with the file itself.
        rejected: what could not be read as rows.
    """

    version: int
    objects: Sequence[ObjectRow] = ()
    events: Sequence[EventRow] = ()
    meta: dict[Any, Any] = field(default_factory=dict)
    keys: frozenset[Key] | None = None
    problems: list[Finding] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)


@dataclass(slots=True)
class Judgement:
    """What of a file is served, and what is wrong with it.

    Attributes:
        objects: rows to be believed, the ones given back by the history among them.
        events: history to be believed, in order.
        findings: everything that is wrong; empty for a whole file.
        rejected: rows that are not served.
        revision: counter of versions; at least that of every row that was seen.
        compacted: up to where history may have been dropped.
        store: number of the store; 0 before schema version 2.
        running: the file is as a running process left it, so that it needs its log.
    """

    objects: dict[Key, ObjectRow]
    events: list[EventRow]
    findings: list[Finding]
    rejected: list[Rejected]
    revision: int
    compacted: int
    store: int
    running: bool


def judge(contents: Contents) -> Judgement:
    """Decide on every row."""
    return _Judge(contents).judge()


class _Judge:
    def __init__(self, contents: Contents) -> None:
        self._read = contents
        self._summed = contents.version > 1
        self._findings = list(contents.problems)
        self._rejected = list(contents.rejected)
        self._objects: dict[Key, ObjectRow] = {}
        self._broken: dict[Key, str] = {}
        self._wrong = [wrong_object(row, summed=self._summed) for row in contents.objects]

    def judge(self) -> Judgement:
        meta = self._meta()
        events = self._events()
        self._believe()
        self._confirm(events, meta)
        counter, compacted = meta.get("revision", 0), meta.get("compacted", 0)
        if self._findings:
            seen = (*(row.revision for row in self._objects.values()), *(event.revision for event in events))
            counter = max(counter, 0, *seen)
        return Judgement(
            self._objects,
            events,
            self._findings,
            self._rejected,
            counter,
            compacted,
            meta.get("store", 0),
            bool(meta.get("running", 0)),
        )

    def _meta(self) -> dict[str, int]:
        wanted = META_2 if self._summed else META
        good = {key: value for key, value in self._read.meta.items() if key in wanted and type(value) is int}
        for key in wanted:
            if key not in good:
                self._found("file", f"the counter '{key}' is missing in table meta")
        return good

    def _events(self) -> list[EventRow]:
        good: list[EventRow] = []
        # The newest events hold the objects as they are stored, which need not be checked twice.
        believed = zip(self._read.objects, self._wrong, strict=True)
        stored = {row.revision: row for row, wrong in believed if wrong is None}
        for row in self._read.events:
            why = wrong_event(row, summed=self._summed, stored=stored.get(row.revision))
            if why is not None:
                self._reject(f"history of {describe(row.key)} at revision {row.revision}", why, row)
            elif good and row.revision <= good[-1].revision:
                self._reject(f"history of {describe(row.key)} at revision {row.revision}", "it is out of order", row)
            else:
                good.append(row)
        return good

    def _believe(self) -> None:
        revisions: dict[int, Key] = {}
        for row, why in zip(self._read.objects, self._wrong, strict=True):
            if why is not None:
                self._broken[row.key] = why
                self._rejected.append(Rejected(describe(row.key), why, tuple(row)))
                continue
            key, revision = row[:3], row[3]
            other = self._objects.get(key)
            if other is not None:
                older, row = sorted((row, other), key=_age)  # noqa: PLW2901  # the newer one counts
                self._reject(describe(key), "it is stored twice; the newer one counts", older)
            elif revision in revisions:
                self._found(describe(key), f"it has revision {revision}, as {describe(revisions[revision])}")
            revisions[row[3]] = key
            self._objects[key] = row

    def _confirm(self, events: list[EventRow], meta: dict[str, int]) -> None:
        last = {event.key: event for event in events}
        counter, compacted = meta.get("revision"), meta.get("compacted")
        newest = events[-1].revision if events else compacted
        if counter is not None and newest is not None and counter != newest and not self._rejected:
            self._found("file", f"the counter of versions is {counter}, the newest change has revision {newest}")
        for key, event in last.items():
            self._compare(key, event)
        for key, row in self._objects.items():
            if counter is not None and row.revision > counter:
                self._found(describe(key), f"its revision {row.revision} is above the counter of versions, {counter}")
            elif compacted is not None and row.revision > compacted and key not in last and not self._rejected:
                self._found(describe(key), f"its change at revision {row.revision} is missing in the history")
        for key in (self._read.keys or frozenset()) - self._objects.keys() - self._broken.keys():
            if key not in last:
                self._found(describe(key), "its row is lost", lost=True)
        for key, why in self._broken.items():
            if key not in self._objects and (key not in last or last[key].type == "DELETED"):
                self._found(describe(key), why, lost=True)

    def _compare(self, key: Key, event: EventRow) -> None:
        """Hold an object against its last change."""
        row = self._objects.get(key)
        if event.type == "DELETED":
            if row is not None and row.revision < event.revision:
                self._reject(describe(key), f"it was deleted at revision {event.revision} and is still there", row)
                del self._objects[key]
        elif row is None or row.revision < event.revision:
            why = self._broken.get(key, "its row is lost" if row is None else f"its row is of revision {row.revision}")
            self._found(describe(key), f"{why}; revision {event.revision} of it is in the history, nothing is lost")
            bare = event.object
            self._objects[key] = bare
        elif row.revision > event.revision and not self._rejected:
            self._found(describe(key), f"its change at revision {row.revision} is missing in the history")

    def _found(self, what: str, why: str, *, lost: bool = False) -> None:
        self._findings.append(Finding(what, why, lost))

    def _reject(self, what: str, why: str, row: Iterable[Any]) -> None:
        self._rejected.append(Rejected(what, why, tuple(row)))
        self._found(what, why)


def _age(row: ObjectRow) -> int:
    return int(row.revision)
