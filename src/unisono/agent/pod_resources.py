"""What one pod holds of the machine: its record on disk, cards, cgroup, network and name."""

from __future__ import annotations

from pathlib import Path

import structlog

from unisono.agent import pod_network
from unisono.agent.host import Host
from unisono.agent.layout import PodDir, PodRecord
from unisono.api.core import Pod
from unisono.api.resources import pod_limits

# Memory of one shim and its init process.
_SHIM_BYTES = 32 << 20

_log = structlog.get_logger(__name__)


class PodResources:
    """Taken when a pod begins, taken over when an agent starts again, given back when nothing of the pod runs.

    Args:
        host: what all pods of the node share.
        pod: the pod.
        address: its address.
        directory: its directory.
    """

    def __init__(self, host: Host, pod: Pod, address: str, directory: PodDir) -> None:
        self._host, self._pod, self._address, self._directory = host, pod, address, directory
        self._uid = pod.metadata.uid or ""
        self._released = False

    def restore(self, record: PodRecord) -> None:
        """Take over what an earlier agent gave the pod."""
        self._host.devices.restore(self._uid, record.devices, record.claimed)

    def take(self, start_time: float) -> None:
        """Give the pod its cards and write its record.

        Args:
            start_time: when the node took the pod over, seconds since 1970.

        Raises:
            AgentError: not enough cards are free; the record is written nevertheless.
        """
        try:
            self._host.devices.allocate(self._pod)
        finally:
            meta = self._pod.metadata
            self._directory.path.mkdir(parents=True, exist_ok=True)
            self._directory.write_record(
                PodRecord(
                    namespace=meta.namespace or "",
                    name=meta.name,
                    uid=self._uid,
                    start_time=start_time,
                    devices=self._host.devices.held.get(self._uid, {}),
                    own_ports=self._host.isolation.own_ports and not self._pod.spec.host_network,
                )
            )

    def release(self) -> bool:
        """Nothing of the pod runs any more: free what others may need; False when that was done before."""
        if self._released:
            return False
        self._released = True
        host = self._host
        host.ledger.release(self._uid)
        host.devices.release(self._uid)
        host.names.remove(self._uid)
        host.ports.remove(self._uid)
        if host.isolation.cgroups is not None:
            host.isolation.cgroups.kill(self._uid)
            host.isolation.cgroups.remove(self._uid)
        return True

    def cgroup(self) -> Path | None:
        """The pod's cgroup, if it has one."""
        return self._host.isolation.cgroups.path(self._uid) if self._host.isolation.cgroups else None

    def make_cgroup(self) -> Path | None:
        """The pod's cgroup, made with its network when the first container starts."""
        host = self._host
        if host.isolation.cgroups is None:
            return None
        if (known := self.cgroup()) is not None:
            return known
        path = host.isolation.cgroups.create(self._uid, self._memory_limit())
        if path is not None and host.isolation.own_ports and not self._pod.spec.host_network:
            try:
                pod_network.isolate(path, self._address, host.machine.addresses)
            except OSError as error:
                _log.warning("pod.network_shared", pod=self._pod.key, error=str(error))
        return path

    def _memory_limit(self) -> int | None:
        """Bytes that the pod may use, shims on top; None when a container has no limit."""
        spec = self._pod.spec
        mains, inits = spec.containers or (), spec.init_containers or ()
        if any("memory" not in (c.resources.limits or {}) for c in mains):
            return None
        return pod_limits(spec)["memory"] + _SHIM_BYTES * (len(mains) + len(inits))
