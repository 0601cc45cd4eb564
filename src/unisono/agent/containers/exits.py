"""What is told of the end of a container's run: the reason, and the words that it left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from unisono.agent.layout import RunDir
from unisono.agent.lifecycle import Exit
from unisono.agent.logs.reader import last_lines
from unisono.api.core import Container

KILLED = 137
_MESSAGE_BYTES = 4096
_PORT_TAKEN = ("Address already in use", "EADDRINUSE")


def explained(result: Exit, run: RunDir, spec: Container, *, out_of_memory: bool) -> Exit:
    """The end with the reason and the message that users look for.

    Args:
        result: how the run ended.
        run: the run.
        spec: the container of the manifest.
        out_of_memory: something of it was killed because it used more memory than it may.
    """
    if result.message:
        return result
    reason = result.reason
    if result.exit_code != 0 and out_of_memory:
        reason = "OOMKilled"
    return replace(result, reason=reason, message=_termination_message(run, spec, result.exit_code))


def lost(run: RunDir, started: Mapping[str, str], now: float) -> Exit:
    """The end of a run whose process went away while no agent looked; kept on disk.

    Args:
        run: the run.
        started: its ``started`` record, empty when there is none.
        now: seconds since 1970.
    """
    message = "The container's process was lost while the node agent was not running."
    end = Exit(KILLED, float(started.get("started_at", now)), now, reason="AgentRestarted", message=message)
    run.write_exit(end)
    return end


def unsupervised(run: RunDir, started_at: float, now: float) -> Exit:
    """The end of a run whose shim was killed before it could write one; kept on disk."""
    end = Exit(KILLED, started_at, now, 9, "Error", "The container's supervisor was killed.")
    run.write_exit(end)
    return end


def port_was_taken(run: RunDir, end: Exit) -> bool:
    """Whether a run failed because another process has its port."""
    if end.exit_code == 0:
        return False
    tail = last_lines(run)
    return any(text in tail for text in _PORT_TAKEN)


def _termination_message(run: RunDir, spec: Container, exit_code: int) -> str:
    try:
        message = run.termination.read_bytes()[:_MESSAGE_BYTES].decode("utf-8", "replace")
    except OSError:
        message = ""
    if not message and exit_code != 0 and spec.termination_message_policy == "FallbackToLogsOnError":
        message = last_lines(run)
    return message
