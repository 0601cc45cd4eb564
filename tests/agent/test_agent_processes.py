"""Pods as real processes of this machine."""

from __future__ import annotations

import pytest
from agent_node import Node, manifest

pytestmark = pytest.mark.processes


async def test_hello(node: Node) -> None:
    node.run(manifest("hello", ["sh", "-c", "echo 'Hello Volcano!'"]))
    pod = await node.phase("hello", "Succeeded", "Failed")
    assert await node.log("hello") == "Hello Volcano!\n"
    state = pod.status.container_statuses[0].state.terminated
    assert (state.exit_code, state.reason) == (0, "Completed")
    assert pod.status.pod_ip.startswith("127.")
