"""Who waits for what: tenants come in turn, and of each tenant its users; of one user first come, first served."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Generic, TypeVar

T = TypeVar("T")

CALLER: ContextVar[tuple[str, str]] = ContextVar("caller", default=("", ""))
"""User and tenant for whom the present request is worked on; empty for components of this process."""


class Lines(Generic[T]):
    """The waiting ones of every user of every tenant."""

    def __init__(self) -> None:
        # By tenant and user, each in the order of their turns.
        self._waiting: dict[str, dict[str, deque[T]]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, one: T, user: str, tenant: str) -> None:
        """Let one wait behind the others of its user."""
        self._waiting.setdefault(tenant, {}).setdefault(user, deque()).append(one)

    def take(self, allowed: Callable[[str], bool] = lambda _: True) -> tuple[T, str] | None:
        """The next one and its tenant, of those tenants that are ``allowed``; None where there is none."""
        tenant = next(filter(allowed, self._waiting), None)
        if tenant is None:
            return None
        users = self._waiting.pop(tenant)
        user = next(iter(users))
        waiting = users.pop(user)
        found = waiting.popleft()
        # Behind the others, the user among those of the tenant.
        if waiting:
            users[user] = waiting
        if users:
            self._waiting[tenant] = users
        return found, tenant


class Places:
    """So many requests are worked on at a time, and so many of one tenant, whose requests ``CALLER`` tells.

    Args:
        count: all places.
        each: those that one tenant may have.

    """

    def __init__(self, count: int, each: int) -> None:
        self._free, self._each = count, each
        self._held: Counter[str] = Counter()
        self._waiting: Lines[asyncio.Future[None]] = Lines()

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Hold a place."""
        user, tenant = CALLER.get()
        future = asyncio.get_running_loop().create_future()
        self._waiting.put(future, user, tenant)
        self._hand_out()
        try:
            await future
            yield
        finally:
            # One that was given a place in the moment in which it gave up has it as well.
            if future.done() and not future.cancelled():
                self._free += 1
                self._held[tenant] -= 1
                if not self._held[tenant]:
                    del self._held[tenant]
                self._hand_out()

    def _hand_out(self) -> None:
        while self._free > 0 and (found := self._waiting.take(lambda tenant: self._held[tenant] < self._each)):
            future, tenant = found
            if not future.done():  # a caller that gave up takes no place
                self._free -= 1
                self._held[tenant] += 1
                future.set_result(None)
