"""Pods on which the agent itself fails: they are told what is wrong, and disturb no others."""

from __future__ import annotations

import contextlib

import structlog

from unisono.agent.host import Host
from unisono.api.core import Pod
from unisono.api.kinds import PODS
from unisono.api.pod_states import has_ended
from unisono.errors import ApiError, Conflict, NotFound

REASON = "CannotRun"
_MOST_TEXT = 1000

_log = structlog.get_logger(__name__)


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
