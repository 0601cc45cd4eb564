"""``unisono install`` on an API server that does not get through with a definition in the time that it gives itself."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from installed import send, servers

from unisono.cli import installing
from unisono.cli.installing import Step, install
from unisono.errors import ApiError, Invalid, Unavailable
from unisono.install.manifests import manifests
from unisono.install.workloads import InstallOptions
from unisono.kube.http import HttpClient

SPACE = "batch"
OPTIONS = InstallOptions(namespace=SPACE, crds=False, policies=False, webhook=False)
SCHEDULER = f"/apis/apps/v1/namespaces/{SPACE}/deployments/unisono-scheduler"
TIMEOUT = "Timeout: request did not complete within the allotted duration"


@pytest.fixture
async def admin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[HttpClient]:
    monkeypatch.setattr(installing, "_PAUSES", (0.0,) * len(installing._PAUSES))
    async with servers("embedded", tmp_path) as (client, _):
        yield client


class Busy:
    """Applies of the scheduler's Deployment that are answered by what ``answers`` still holds; all else goes on."""

    def __init__(self, client: HttpClient, *answers: dict[str, Any] | Exception) -> None:
        self._client, self._answers = client, list(answers)
        self.applies = 0

    async def request(self, method: str, path: str, **how: Any) -> Any:
        if (method, path) != ("PATCH", SCHEDULER):
            return await self._client.request(method, path, **how)
        self.applies += 1
        if not self._answers:
            return await self._client.request(method, path, **how)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer["code"], {}, json.dumps({"kind": "Status", **answer}).encode()

    async def install(self) -> list[Step]:
        return [step async for step in install(self, manifests(OPTIONS), dry_run=False)]  # type: ignore[arg-type]


def timeout() -> dict[str, Any]:
    return {"code": 504, "reason": "Timeout", "message": TIMEOUT}


def silence() -> Unavailable:
    error = Unavailable("The API server gave no answer in time.")
    error.__cause__ = TimeoutError()
    return error


@pytest.mark.parametrize("answers", [[timeout()], [timeout()] * 4, [silence(), timeout()]], ids=["one", "four", "none"])
async def test_what_took_too_long_is_applied_once_more(admin: HttpClient, answers: list[Any]) -> None:
    busy = Busy(admin, *answers)
    steps = await busy.install()
    assert {step.action for step in steps} <= {"applied", "kept"}
    assert busy.applies == len(answers) + 1
    assert (await send(admin, "GET", SCHEDULER))[0] == 200


async def test_a_server_that_never_gets_through_is_told_of(admin: HttpClient) -> None:
    with pytest.raises(Unavailable) as refused:
        await Busy(admin, *[timeout()] * 5).install()
    assert refused.value.message == f"deployment.apps/unisono-scheduler: {TIMEOUT}"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"code": 422, "reason": "Invalid", "message": "spec.replicas: no"}, Invalid),
        ({"code": 403, "reason": "Forbidden", "message": "not yours"}, ApiError),
        (Unavailable("The API server cannot be reached."), Unavailable),
    ],
    ids=["invalid", "forbidden", "unreachable"],
)
async def test_any_other_refusal_ends_the_installation_at_once(
    admin: HttpClient, answer: dict[str, Any] | Exception, error: type[ApiError]
) -> None:
    busy = Busy(admin, answer)
    with pytest.raises(error):
        await busy.install()
    assert busy.applies == 1
