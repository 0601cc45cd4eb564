"""The agent under test, started and stopped around each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from agent_node import Node

from support.memory import MemoryClient


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    """A running agent with everything that this machine allows."""
    node = Node(MemoryClient(), tmp_path / "agent")
    await node.start()
    yield node
    await node.stop()
