"""What a server says of an object that is wrong."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from unisono.api.kinds import JOBS
from unisono.errors import ApiError, Invalid
from unisono.sdk.jobs.submission import create_object


class Server:
    """Refuses everything with one message."""

    def __init__(self, message: str) -> None:
        self.body = json.dumps({"kind": "Status", "message": message, "reason": "BadRequest", "code": 400}).encode()

    async def request(self, *_: Any, **__: Any) -> tuple[int, dict[str, str], bytes]:
        return 400, {}, self.body


@pytest.mark.parametrize(
    ("message", "invalid"),
    [('strict decoding error: unknown field "spec.tusks"', True), ("the body is no JSON", False)],
)
def test_a_field_that_does_not_exist_makes_the_object_invalid(message: str, invalid: bool) -> None:
    with pytest.raises(ApiError) as refused:
        asyncio.run(create_object(Server(message), JOBS, {"metadata": {"name": "a"}}, "default"))  # type: ignore[arg-type]
    assert isinstance(refused.value, Invalid) is invalid
    assert refused.value.message == message
