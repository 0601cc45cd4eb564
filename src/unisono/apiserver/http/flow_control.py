"""How many requests and streams are in progress, in all and of each user; one too many is answered 429.

After Kubernetes' API priority and fairness: components of this control plane, administrators and nodes, other users,
and unknown clients have levels of their own, so that the last cannot keep the first from being served.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from unisono.api.keys import MASTERS, NODES_GROUP
from unisono.api.users import SERVICE_ACCOUNTS
from unisono.apiserver.access.user import ANONYMOUS, User
from unisono.apiserver.flow_control.limits import Limits

_OF_TENANT = 3.0
_SYSTEM = frozenset({MASTERS, NODES_GROUP, f"{SERVICE_ACCOUNTS}:kube-system"})


class Quota:
    """At most ``total`` at a time, ``each`` of one user, and of one tenant three times what nobody has.

    A tenant has as many users as it likes. So one takes three quarters at most, several leave less to each other, and
    there is always room for a tenant that has nothing yet.
    """

    def __init__(self, total: int, each: int) -> None:
        self._total, self._each = total, each
        # Where one user may have more than three quarters, so may its tenant; where all, there is no bound.
        self._factor = max(_OF_TENANT, each / (total - each)) if each < total else 0.0
        self._taken = 0
        self._of: Counter[str] = Counter()
        self._of_tenant: Counter[str] = Counter()

    def full(self, user: str, tenant: str) -> str:
        """``all``, ``tenant`` or ``user`` for the bound that is reached; empty where there is room."""
        if self._of[user] >= self._each:
            return "user"
        free = self._total - self._taken
        if free <= 0:
            return "all"
        return "tenant" if self._factor and self._of_tenant[tenant] >= self._factor * free else ""

    @contextmanager
    def one(self, user: str, tenant: str) -> Iterator[None]:
        """Count one more for as long as it lasts."""
        counts = ((self._of, user), (self._of_tenant, tenant))
        self._taken += 1
        for counter, name in counts:
            counter[name] += 1
        try:
            yield
        finally:
            self._taken -= 1
            for counter, name in counts:
                counter[name] -= 1
                if not counter[name]:
                    del counter[name]


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
