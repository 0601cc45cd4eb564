"""A new node is not ready until its agent says that it is."""

from __future__ import annotations

from unisono.api.conditions import is_true
from unisono.api.core import Node, Taint
from unisono.api.keys import NODE_NOT_READY
from unisono.apiserver.admission.request import Request, View


def taint_new(request: Request, view: View) -> None:
    """Keep pods away from a new node that does not say that it is ready; who watches nodes takes the taint off."""
    node: Node = request.object
    if request.operation != "CREATE":
        return
    ready = is_true(node.status.conditions, "Ready")
    if ready or any(each.key == NODE_NOT_READY for each in node.spec.taints or ()):
        return
    node.spec.taints = [*(node.spec.taints or ()), Taint(key=NODE_NOT_READY, effect="NoSchedule")]
