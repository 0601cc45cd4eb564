"""How many requests and streams are in progress, in all and of each user; one too many is answered 429.

After Kubernetes' API priority and fairness: components of this control plane, administrators and nodes, other users,
and unknown clients have levels of their own, so that the last cannot keep the first from being served.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from unisono.api.keys import MASTERS, NODES_GROUP
from unisono.apiserver.access.user import ANONYMOUS, SERVICE_ACCOUNTS, User
from unisono.apiserver.flow_control.limits import Limits

_SYSTEM = frozenset({MASTERS, NODES_GROUP, f"{SERVICE_ACCOUNTS}:kube-system"})


class Quota:
    """At most ``total`` at a time, and ``each`` of one user."""

    def __init__(self, total: int, each: int) -> None:
        self._total, self._each = total, each
        self._taken = 0
        self._of: Counter[str] = Counter()

    def full(self, user: str) -> str:
        """``all`` or ``user`` for the bound that is reached; empty where there is room."""
        if self._of[user] >= self._each:
            return "user"
        return "all" if self._taken >= self._total else ""

    @contextmanager
    def one(self, user: str) -> Iterator[None]:
        """Count one more for as long as it lasts."""
        self._taken += 1
        self._of[user] += 1
        try:
            yield
        finally:
            self._taken -= 1
            self._of[user] -= 1
            if not self._of[user]:
                del self._of[user]


class FlowControl:
    """The quotas of one server.

    Args:
        limits: how much there may be.

    """

    def __init__(self, limits: Limits) -> None:
        most, each = limits.in_flight, limits.in_flight_of_one
        self._own = Quota(most, most)
        self._requests = Quota(most, most)
        self._levels = {
            "system": Quota(most, most),
            "users": Quota(max(1, most * 3 // 4), each),
            "unknown": Quota(max(1, most // 8), most),
        }
        self._streams = Quota(limits.streams, limits.streams_of_one)
        self._kinds = {
            "log": Quota(limits.logs, limits.logs_of_one),
            "connect": Quota(limits.sessions, limits.sessions_of_one),
        }

    def quotas(self, verb: str, user: User, *, own: bool) -> list[tuple[str, Quota]]:
        """What a request counts against, each with the name under which a refusal is counted.

        Args:
            verb: as Kubernetes calls it, or ``log`` and ``connect``.
            user: who asks.
            own: by the socket for components of this control plane.

        """
        if verb in STREAMS:
            found = [("streams", self._streams)]
            if verb in self._kinds:
                found.append((_NAMES[verb], self._kinds[verb]))
            return found
        if own:
            return [("requests", self._own)]
        return [("requests", self._requests), ("requests", self._levels[level(user)])]


STREAMS = frozenset({"watch", "log", "connect"})
_NAMES = {"log": "logs", "connect": "sessions"}


def level(user: User) -> str:
    """Whose requests are counted together."""
    if user is ANONYMOUS:
        return "unknown"
    return "system" if _SYSTEM.intersection(user.groups) else "users"
