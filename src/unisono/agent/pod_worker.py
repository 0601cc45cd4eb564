"""One pod on this node: asks ``lifecycle`` what to do, does it, and reports."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import structlog

from unisono.agent import pod_network
from unisono.agent.containers import PodContainer
from unisono.agent.environment import MissingSource
from unisono.agent.host import Host
from unisono.agent.layout import PodRecord
from unisono.agent.lifecycle import Phase, Plan, PodView, Reason, Role, decide
from unisono.agent.preparation import impossible, prepare, refresh_volumes
from unisono.agent.status import pod_status, status_patch
from unisono.api.core import Container, Pod
from unisono.api.kinds import PODS
from unisono.api.resources import pod_limits
from unisono.errors import AgentError, ApiError, Conflict, NotFound
from unisono.kube.backoff import Backoff
from unisono.kube.clock import Timer

_RETRY_SECONDS = 2.0
_POLL_SECONDS = 0.02
_GANG_SECONDS = 1.0
# Memory of one shim and its init process.
_SHIM_BYTES = 32 << 20
# How long a stopping node waits for the API to take the last word on a pod.
_REPORT_SECONDS = 2.0
_DEFAULT_GRACE = 30.0
_FINAL: tuple[Phase, Phase] = ("Succeeded", "Failed")

_log = structlog.get_logger(__name__)


class PodWorker:
    """Runs one pod from its binding to its removal.

    Args:
        host: what all pods of the node share.
        pod: the pod, bound to this node.
        address: its address.
    """

    def __init__(self, host: Host, pod: Pod, address: str) -> None:
        self.pod = pod
        self.uid = pod.metadata.uid or ""
        self.gone = False
        self._host, self._address = host, address
        self._directory = host.layout.pod(self.uid)
        self._wake = asyncio.Event()
        self._timer: Timer | None = None
        self._stopping: dict[str, float] = {}
        self._failure: Reason | None = None
        self._backoff, self._api_failures = Backoff(base=0.2, cap=10.0), 0
        self._refresh = False
        self._released = False
        self._recovered, self._over = asyncio.Event(), asyncio.Event()
        record = self._directory.record()
        self._start_time = record.start_time if record else host.clock.time()
        self._containers = [self._container(spec, _role(spec)) for spec in pod.spec.init_containers or ()]
        self._containers += [self._container(spec, "main") for spec in pod.spec.containers or ()]

    def update(self, pod: Pod) -> None:
        """A newer state of the pod was seen."""
        if _version(pod) >= _version(self.pod):
            self.pod = pod
        self.wake()

    def remove(self) -> None:
        """The API does not have the pod any more: end what runs, at once."""
        self.gone = True
        self.wake()

    def refresh(self) -> None:
        """Something that the pod refers to has changed."""
        self._refresh = True
        for container in self._containers:
            container.retry_at = 0.0
        self.wake()

    def wake(self) -> None:
        """Look at the pod again."""
        self._wake.set()

    async def run(self) -> None:
        """Work until the pod is gone."""
        try:
            await self._recover()
            self._recovered.set()
            while True:
                self._wake.clear()
                if await self._step():
                    return
                await self._wake.wait()
        finally:
            self._over.set()
            self._cancel_timer()
            for container in self._containers:
                container.close()

    async def end_all(self) -> None:
        """End the pod because its node goes away, within its grace period; returns when nothing runs any more."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._recovered.wait(), _REPORT_SECONDS)
        if self.pod.status.phase not in _FINAL and self._failure is None:
            self._failure = Reason("Terminated", "Pod was terminated because its node agent was stopped.")
        self.wake()
        while any(c.running for c in self._containers):
            await self._host.clock.sleep(_POLL_SECONDS)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), _REPORT_SECONDS)

    # --- one step -------------------------------------------------------------------------------------------

    async def _step(self) -> bool:
        """Do what is due; True when nothing is left to do for this pod, ever."""
        self._cancel_timer()
        if self.pod.status.phase in _FINAL:
            return await self._finish()
        now = self._host.clock.time()
        plan = decide(self._view(), now)
        for name, why in plan.stop.items():
            self._stop(name, why)
        for name in [] if self.gone else plan.start:
            await self._start(name, plan)
        if self._refresh and not plan.done:
            await self._refresh_volumes()
        if plan.start:
            # What was started, or could not be, changes what comes next.
            plan = decide(self._view(), now)
            if plan.start:
                plan.wake_at(now)
        if plan.wake is not None:
            self._timer = self._host.clock.call_later(max(0.0, plan.wake - now), self.wake)
        if self.gone:
            return plan.done
        if await self._report(plan) and plan.done:
            return await self._finish()
        return False

    async def _finish(self) -> bool:
        """The API says that the pod is over: end what still runs, then wait for its deletion."""
        for container in self._containers:
            if container.running:
                self._stop(container.name, "the pod is over")
        if any(c.running for c in self._containers):
            return False
        self._release()
        self._over.set()
        if not self.gone and self.pod.metadata.deletion_timestamp is not None:
            await self._delete()
        return self.gone

    def _view(self) -> PodView:
        spec, meta = self.pod.spec, self.pod.metadata
        seconds = spec.active_deadline_seconds
        return PodView(
            name=meta.name,
            restart_policy=spec.restart_policy or "Always",
            containers=tuple(c.view() for c in self._containers),
            deleting=self.gone or meta.deletion_timestamp is not None,
            failure=self._failure,
            deadline=None if seconds is None else self._start_time + seconds,
        )

    def _stop(self, name: str, why: str) -> None:
        """Ask a container to end, once, or again when less time is left than was said before."""
        container, grace = self._named(name), self._grace()
        if self._stopping.get(name, float("inf")) <= grace:
            return
        if name not in self._stopping:
            self._host.recorder.event(self.pod, "Normal", "Killing", f"Stopping container {name}: {why}")
        self._stopping[name] = grace
        container.stop(grace)

    def _grace(self) -> float:
        if self.gone:
            return 0.0
        seconds = self.pod.metadata.deletion_grace_period_seconds
        if seconds is None:
            seconds = self.pod.spec.termination_grace_period_seconds
        return _DEFAULT_GRACE if seconds is None else float(seconds)

    async def _start(self, name: str, plan: Plan) -> None:
        container = self._named(name)
        self._stopping.pop(name, None)
        # A start that failed for want of something leaves its directory to the next try.
        run = container.prepared or self._directory.new_run(name, container.crashes)
        container.prepared = run
        try:
            spec = await prepare(
                self._host, self.pod, container.spec, self._directory, run, self._address, self._cgroup()
            )
            container.start(run, spec)
        except MissingSource as error:
            self._block(container, "CreateContainerConfigError", str(error))
        except (ApiError, OSError) as error:
            self._block(container, "CreateContainerError", str(error))
        except AgentError as error:
            self._fail("CannotRun", str(error))
        else:
            container.prepared = None
            self._host.recorder.event(self.pod, "Normal", "Started", f"Started container {name}")

    def _block(self, container: PodContainer, reason: str, message: str) -> None:
        if container.blocked is None or container.blocked.message != message:
            self._host.recorder.event(self.pod, "Warning", "Failed", f"Error: {message}")
        container.blocked = Reason(reason, message)
        container.retry_at = self._host.clock.time() + _RETRY_SECONDS

    def _fail(self, reason: str, message: str) -> None:
        self._failure = Reason(reason, message)
        self._host.recorder.event(self.pod, "Warning", reason, message)
        self.wake()

    # --- reporting ------------------------------------------------------------------------------------------

    async def _report(self, plan: Plan) -> bool:
        """Bring the pod's status up to date; False when that must be tried again."""
        host = self._host
        status = pod_status(
            self.pod,
            self._view(),
            plan,
            pod_ip=self._address,
            host_ip=host.machine.address,
            start_time=self._start_time,
            now=host.clock.time(),
        )
        if (changed := status_patch(self.pod, status)) is None:
            return True
        meta = self.pod.metadata
        patch = {"metadata": {"resourceVersion": meta.resource_version}, "status": changed}
        try:
            newer = await host.client.patch(PODS, meta.name, patch, namespace=meta.namespace, subresource="status")
        except NotFound:
            self.remove()
            return False
        except Conflict:
            await self._reread()
            return False
        except (ApiError, OSError) as error:
            self._try_later(error)
            return False
        self._api_failures = 0
        if _version(newer) >= _version(self.pod):
            self.pod = newer
        return True

    async def _reread(self) -> None:
        """Somebody else changed the pod: report on top of that."""
        meta = self.pod.metadata
        try:
            newer = await self._host.client.get(PODS, meta.name, meta.namespace)
        except NotFound:
            self.remove()
            return
        except (ApiError, OSError) as error:
            self._try_later(error)
            return
        if newer.metadata.uid != self.uid:
            self.remove()
        else:
            self.update(newer)

    async def _delete(self) -> None:
        """Nothing of the pod runs any more: let the API forget it."""
        meta = self.pod.metadata
        try:
            await self._host.client.delete(PODS, meta.name, meta.namespace, uid=self.uid, grace_seconds=0)
        except (NotFound, Conflict):
            self.remove()
        except (ApiError, OSError) as error:
            self._try_later(error)

    def _try_later(self, error: Exception) -> None:
        self._api_failures += 1
        delay = self._backoff.delay(self._api_failures)
        _log.warning("pod.api_failed", pod=self.pod.key, error=str(error), retry_in=round(delay, 2))
        self._cancel_timer()
        self._timer = self._host.clock.call_later(delay, self.wake)

    # --- beginning and end ----------------------------------------------------------------------------------

    async def _recover(self) -> None:
        """Take over what an earlier agent left of this pod, or begin it."""
        record = self._directory.record()
        if record is not None:
            self._host.devices.restore(self.uid, record.devices)
            for container in self._containers:
                await container.recover()
        if self.pod.status.phase in _FINAL:
            return
        if (problem := impossible(self.pod)) is not None:
            self._fail("CannotRun", problem)
            return
        if record is None:
            self._begin()

    def _begin(self) -> None:
        meta = self.pod.metadata
        try:
            devices = self._host.devices.allocate(self.pod)
        except AgentError as error:
            self._fail("UnexpectedAdmissionError", str(error))
            devices = {}
        if self._host.isolation.level == "none":
            # Names are replaced by addresses once, at the start: the other pods of the gang must be known by then.
            for container in self._containers:
                container.retry_at = self._start_time + _GANG_SECONDS
        self._directory.path.mkdir(parents=True, exist_ok=True)
        self._directory.write_record(
            PodRecord(
                namespace=meta.namespace or "",
                name=meta.name,
                uid=self.uid,
                start_time=self._start_time,
                devices=devices,
            )
        )

    def _cgroup(self) -> Path | None:
        """The pod's cgroup, made with its network when the first container starts."""
        host = self._host
        if host.isolation.cgroups is None:
            return None
        if (known := host.isolation.cgroups.path(self.uid)) is not None:
            return known
        path = host.isolation.cgroups.create(self.uid, self._memory_limit())
        if path is not None and host.isolation.own_ports and not self.pod.spec.host_network:
            try:
                pod_network.isolate(path, self._address, host.machine.addresses)
            except OSError as error:
                _log.warning("pod.network_shared", pod=self.pod.key, error=str(error))
        return path

    def _memory_limit(self) -> int | None:
        """Bytes that the pod may use, shims on top; None when a container has no limit."""
        if any("memory" not in (c.resources.limits or {}) for c in self.pod.spec.containers or ()):
            return None
        return pod_limits(self.pod.spec)["memory"] + _SHIM_BYTES * len(self._containers)

    def _release(self) -> None:
        """Nothing of the pod runs any more: free what others may need."""
        if self._released:
            return
        self._released = True
        self._host.devices.release(self.uid)
        self._host.names.remove(self.uid)
        self._warn_of_taken_port()
        if self._host.isolation.cgroups is not None:
            self._host.isolation.cgroups.kill(self.uid)
            self._host.isolation.cgroups.remove(self.uid)

    def _warn_of_taken_port(self) -> None:
        for container in self._containers:
            if container.port_was_taken():
                self._host.recorder.event(
                    self.pod,
                    "Warning",
                    "PortInUse",
                    f"Container {container.name} found its port taken by another process of this machine: give the "
                    "port as hostPort, so that pods which need it run one after the other, or choose another.",
                )

    async def _refresh_volumes(self) -> None:
        self._refresh = False
        try:
            await refresh_volumes(self._host, self.pod, self._directory, self._address)
        except (AgentError, ApiError, OSError) as error:
            # The files stay as they are: a deleted ConfigMap does not disturb who runs with it.
            _log.info("pod.volumes_not_refreshed", pod=self.pod.key, error=str(error))

    def _container(self, spec: Container, role: Role) -> PodContainer:
        return PodContainer(
            spec,
            role,
            self._directory,
            address=self._address,
            clock=self._host.clock,
            changed=self.wake,
            cgroup=lambda: self._host.isolation.cgroups.path(self.uid) if self._host.isolation.cgroups else None,
        )

    def _named(self, name: str) -> PodContainer:
        return next(c for c in self._containers if c.name == name)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _version(pod: Pod) -> int:
    text = pod.metadata.resource_version or ""
    return int(text) if text.isdigit() else 0


def _role(container: Container) -> Role:
    """An init container that is restarted always is a sidecar."""
    return "sidecar" if container.restart_policy == "Always" else "init"
