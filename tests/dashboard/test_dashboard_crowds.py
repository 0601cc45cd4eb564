"""One viewer takes neither sessions nor views from others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from unisono.dashboard.http import sessions as module
from unisono.dashboard.http import sessions as worlds
from unisono.dashboard.http.sessions import MOST_SESSIONS_OF_ONE, NotSignedIn, Sessions
from unisono.errors import ApiError
from unisono.kube.kubeconfig import ClusterConfig


class World:
    """Looks at nothing."""

    refused = None

    def __init__(self, client: Any, user: str, *_: Any, **__: Any) -> None:
        self.client, self.user = client, user

    async def run(self) -> None:
        await asyncio.Event().wait()


class Client:
    async def close(self) -> None: ...


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> Sessions:
    async def user_of(_: Sessions, config: ClusterConfig) -> str:
        return str(config.token)

    monkeypatch.setattr(Sessions, "_user_of", user_of)
    monkeypatch.setattr(worlds, "World", World)
    return Sessions(ClusterConfig("https://127.0.0.1"), client_of=lambda _: Client())  # type: ignore[arg-type,return-value]


async def test_who_signs_in_again_and_again_ends_the_own_sessions(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_SESSIONS", MOST_SESSIONS_OF_ONE + 2)
    bob = await sessions.with_token("bob")
    crowd = [await sessions.with_token("mallory") for _ in range(3 * MOST_SESSIONS_OF_ONE)]
    assert sum(map(sessions.alive, crowd)) == MOST_SESSIONS_OF_ONE
    carol, dave = await sessions.with_token("carol"), await sessions.with_token("dave")
    assert all(map(sessions.alive, (bob, carol, dave)))
    assert sum(map(sessions.alive, crowd)) == MOST_SESSIONS_OF_ONE - 1
    with pytest.raises(NotSignedIn):
        sessions.find(crowd[0].cookie, crowd[0].key)


async def test_sessions_of_all_accounts_of_a_namespace_are_those_of_one_tenant(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_SESSIONS", 12)
    mine = [await sessions.with_token("bob") for _ in range(3)]
    crowd = [await sessions.with_token(f"system:serviceaccount:eve:a{number}") for number in range(30)]
    assert all(map(sessions.alive, mine))
    assert sum(map(sessions.alive, crowd)) == 9


async def test_views_of_ever_other_namespaces_are_bounded(sessions: Sessions) -> None:
    with sessions.looking(await sessions.with_token("bob")):
        for number in range(30):
            with sessions.looking(await sessions.with_token("mallory", [f"n{number}"])):
                pass
        assert len(sessions._worlds.open) <= 9
        held = [sessions.looking(await sessions.with_token("mallory", [f"m{number}"])) for number in range(9)]
        for each in held[:8]:
            each.__enter__()
        with pytest.raises(ApiError, match="too many views"):
            held[8].__enter__()
        for each in held[:8]:
            each.__exit__(None, None, None)
    await sessions.close()
