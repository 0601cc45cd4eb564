"""An API server that refuses writes and loses answers: what controllers must get through without harm."""

from __future__ import annotations

import contextlib
import enum
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from support.memory import MemoryClient, Write
from unisono.api.base import Object
from unisono.api.kind import Kind
from unisono.errors import ApiError, Conflict, Unavailable
from unisono.kube.client import PatchType, Propagation

T = TypeVar("T", bound=Object)


class Fault(enum.Enum):
    """What becomes of a write."""

    REFUSED = "refused"
    CONFLICT = "conflict"
    # It is done, and the writer never hears of it.
    LOST = "lost"


@dataclass(frozen=True)
class Attempt:
    """A write of the controllers.

    Attributes:
        operation: create, patch, patch status or delete.
        resource: plural of the kind.
        name: of the object.
        number: among all writes.
        again: how often the same was tried before.

    """

    operation: str
    resource: str
    name: str
    number: int
    again: int


Faults = Callable[[Attempt], Fault | None]


def every_write_once(fault: Fault) -> Faults:
    """Each write fails at first and gets through when it is tried again."""
    return lambda attempt: fault if attempt.again % 2 == 0 else None


def some_writes(count: int, fault: Fault) -> Faults:
    """Every other write fails, so many times: some are lost in the middle of what belongs together."""
    left = [count]

    def judge(attempt: Attempt) -> Fault | None:
        if attempt.number % 2 or not left[0]:
            return None
        left[0] -= 1
        return fault

    return judge


def writes_of(operation: str, resource: str, fault: Fault = Fault.REFUSED) -> Faults:
    """Writes of one sort fail as long as nothing else is said."""
    return lambda attempt: fault if (attempt.operation, attempt.resource) == (operation, resource) else None


class UnreliableClient(MemoryClient):
    """Fails writes as ``faults`` says, but not those within ``hands()``.

    ``applied`` lists the writes that took place, each with the UID of its object.
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.faults: Faults | None = None
        self.applied: list[tuple[Write, str]] = []
        self._hands = self._number = 0
        self._attempts: Counter[tuple[str, str, str]] = Counter()

    @contextlib.contextmanager
    def hands(self) -> Iterator[None]:
        """Users, nodes and the scheduler act: what they do is not what is tested."""
        self._hands += 1
        try:
            yield
        finally:
            self._hands -= 1

    async def create(self, kind: Kind[T], obj: T, *, dry_run: bool = False) -> T:
        lost = self._judge("create", kind, obj.metadata.name or obj.metadata.generate_name or "")
        made = await super().create(kind, obj, dry_run=dry_run)
        if not dry_run:
            self._done(made.metadata.uid, lost)
        return made

    async def patch(
        self,
        kind: Kind[T],
        name: str,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        patch_type: PatchType = "merge",
    ) -> T:
        lost = self._judge("patch status" if subresource == "status" else "patch", kind, name)
        changed = await super().patch(
            kind, name, patch, namespace=namespace, subresource=subresource, patch_type=patch_type
        )
        self._done(changed.metadata.uid, lost)
        return changed

    async def delete(
        self,
        kind: Kind[Any],
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        grace_seconds: int | None = None,
        propagation: Propagation | None = None,
    ) -> None:
        lost = self._judge("delete", kind, name)
        await super().delete(kind, name, namespace, uid=uid, grace_seconds=grace_seconds, propagation=propagation)
        self._done(uid, lost)

    def _judge(self, operation: str, kind: Kind[Any], name: str) -> ApiError | None:
        """Raise what keeps the write from taking place, or answer what is raised when it has."""
        if self.faults is None or self._hands:
            return None
        target = operation, kind.plural, name
        fault = self.faults(Attempt(*target, self._number, self._attempts[target]))
        self._number += 1
        self._attempts[target] += 1
        if fault is Fault.REFUSED:
            raise Unavailable("the server is busy")
        if fault is Fault.CONFLICT:
            raise Conflict("try again")
        return Unavailable("the connection was closed") if fault is Fault.LOST else None

    def _done(self, uid: str | None, lost: ApiError | None) -> None:
        self.applied.append((self.writes[-1], uid or ""))
        if lost is not None:
            raise lost
