"""Telling the API about one pod, and its deletion at the end; every failure is tried again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import structlog

from unisono.agent.host import Host
from unisono.agent.lifecycle import Plan, PodView
from unisono.agent.status import pod_status, status_patch
from unisono.api.core import Pod
from unisono.api.kinds import PODS
from unisono.api.pod_states import has_ended
from unisono.errors import ApiError, Conflict, NotFound
from unisono.kube.pace import Backoff

_log = structlog.get_logger(__name__)


class PodReporter:
    """The pod as the API has it, and what this node writes there.

    Args:
        host: what all pods of the node share.
        pod: the pod, bound to this node.
        address: its address.
        start_time: when the node took the pod over, seconds since 1970.
        later: called with seconds after which the pod is to be looked at again.
        gone: called when the API does not have the pod any more.
    """

    def __init__(
        self,
        host: Host,
        pod: Pod,
        address: str,
        start_time: float,
        *,
        later: Callable[[float], None],
        gone: Callable[[], None],
    ) -> None:
        self.pod = pod
        self._host, self._address, self._start_time = host, address, start_time
        self._later, self._gone = later, gone
        self._backoff, self._failures = Backoff(base=0.2, cap=10.0), 0

    def seen(self, pod: Pod) -> None:
        """The API showed this state of the pod; older ones than the known are passed over."""
        if _version(pod) >= _version(self.pod):
            self.pod = pod

    async def report(self, view: PodView, plan: Plan) -> bool:
        """Bring the pod's status up to date; False when that must be tried again."""
        host = self._host
        status = pod_status(
            self.pod,
            view,
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
            self._gone()
            return False
        except Conflict:
            await self._reread()
            return False
        except (ApiError, OSError) as error:
            self._try_later(error)
            return False
        self._failures = 0
        self.seen(newer)
        return True

    async def delete(self) -> None:
        """Nothing of the pod runs any more: let the API forget it."""
        meta = self.pod.metadata
        try:
            await self._host.client.delete(PODS, meta.name, meta.namespace, uid=meta.uid, grace_seconds=0)
        except (NotFound, Conflict):
            self._gone()
        except (ApiError, OSError) as error:
            self._try_later(error)

    async def _reread(self) -> None:
        """Another client changed the pod: the next report stands on top of that."""
        meta = self.pod.metadata
        try:
            newer = await self._host.client.get(PODS, meta.name, meta.namespace)
        except NotFound:
            self._gone()
            return
        except (ApiError, OSError) as error:
            self._try_later(error)
            return
        if newer.metadata.uid != meta.uid:
            self._gone()
            return
        self.seen(newer)
        self._later(0.0)

    def _try_later(self, error: Exception) -> None:
        self._failures += 1
        delay = self._backoff.delay(self._failures)
        _log.warning("pod.api_failed", pod=self.pod.key, error=str(error), retry_in=round(delay, 2))
        self._later(delay)


def _version(pod: Pod) -> int:
    text = pod.metadata.resource_version or ""
    return int(text) if text.isdigit() else 0


# Pods on which the agent itself fails: they are told what is wrong, and disturb no others.

REASON = "CannotRun"
_MOST_TEXT = 1000


def cause(error: Exception) -> str:
    """What a user is told of an error that the agent did not expect."""
    return f"The node agent cannot handle this pod ({type(error).__name__}: {error})"[:_MOST_TEXT] + "."


async def tell(host: Host, pod: Pod, message: str) -> None:
    """Fail a pod of which nothing runs, with an event; one that is being deleted goes.

    Args:
        host: what all pods of the node share.
        pod: the pod.
        message: the cause.
    """
    meta = pod.metadata
    try:
        if meta.deletion_timestamp is not None:
            with contextlib.suppress(Conflict):
                await host.client.delete(PODS, meta.name, meta.namespace, uid=meta.uid, grace_seconds=0)
        elif not has_ended(pod):
            host.recorder.event(pod, "Warning", REASON, message)
            status = {"phase": "Failed", "reason": REASON, "message": message}
            patch = {"metadata": {"uid": meta.uid}, "status": status}
            await host.client.patch(PODS, meta.name, patch, namespace=meta.namespace, subresource="status")
    except NotFound:
        return
    except (ApiError, OSError) as error:
        _log.warning("pod.not_told", pod=pod.key, error=str(error))
