"""The claims of this node's pods on the machine's ports, and whom to wake when one of them ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from unisono.agent.network.ports import Claim, Hold, claim_of, hold
from unisono.api.core import Pod
from unisono.kube.clock import Clock


class PortBook:
    """Keeps pods of different gangs from starting on the same declared port.

    It is filled from the pods of the API and their directories on disk, so that an agent that starts again decides as
    the last one did.

    Args:
        clock: the time.
        own_ports: pods have ports of their own; only those with ``hostNetwork`` share the machine's.
    """

    def __init__(self, clock: Clock, *, own_ports: bool) -> None:
        self._clock, self._own_ports = clock, own_ports
        self._claims: dict[str, Claim] = {}
        self._waiting: dict[str, Callable[[], None]] = {}

    def add(self, pod: Pod, seen_at: float, *, started: bool) -> None:
        """A pod is bound to this node.

        Args:
            pod: the pod.
            seen_at: when the agent took it over, seconds since 1970.
            started: a process of it was started by an earlier agent.
        """
        if not self._own_ports or pod.spec.host_network:
            self._claims[pod.metadata.uid or ""] = claim_of(pod, seen_at, started=started)

    def hold(self, uid: str, wake: Callable[[], None]) -> Hold | None:
        """Why a pod must not start now; ``wake`` is called when that may have changed."""
        found = hold(uid, self._claims, self._clock.time()) if uid in self._claims else None
        if found is None:
            self._waiting.pop(uid, None)
        else:
            self._waiting[uid] = wake
        return found

    def started(self, uid: str) -> None:
        """A process of the pod is about to start: its ports are its own from now on."""
        claim = self._claims.get(uid)
        if claim is not None and not claim.started:
            self._claims[uid] = replace(claim, started=True)
            self._wake()

    def remove(self, uid: str) -> None:
        """Nothing of the pod runs any more, nor ever will."""
        self._waiting.pop(uid, None)
        if self._claims.pop(uid, None) is not None:
            self._wake()

    def _wake(self) -> None:
        for wake in list(self._waiting.values()):
            wake()
