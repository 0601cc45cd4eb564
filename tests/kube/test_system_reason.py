"""What errors of the system are called where a user reads them."""

from __future__ import annotations

import errno

import pytest

from unisono.errors import system_reason


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 9)"), "Connection refused"),
        (OSError(-2, "Name or service not known"), "Name or service not known"),
        (OSError("no route"), "no route"),
        (ConnectionAbortedError(), "the connection broke"),
        (TimeoutError(), "it did not answer in time"),
    ],
)
def test_a_reason_is_always_given(error: OSError, reason: str) -> None:
    assert system_reason(error) == reason
