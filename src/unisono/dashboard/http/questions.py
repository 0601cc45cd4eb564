"""Questions of commands: one request with a token and no session, answered with the rights of that token."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web

from unisono.dashboard.http.guard import TOKEN_HEADER
from unisono.dashboard.live.viewing import CommandViewer
from unisono.errors import NotFound, Unavailable

if TYPE_CHECKING:
    from unisono.dashboard.http.sessions import Sessions
    from unisono.dashboard.live.viewing import Past

_SECONDS = 60.0
_NO_DATABASE = (
    "this dashboard reads no history: it needs a database "
    "('unisono install --dashboard --history-dsn-secret NAME', or history.secret of the chart)"
)


class Questions:
    """Answers them.

    Args:
        sessions: knows the API server.
        past: the history; None where none is kept.

    """

    def __init__(self, sessions: Sessions, past: Past | None) -> None:
        self._sessions, self._past = sessions, past

    async def history(self, request: web.Request) -> web.StreamResponse:
        """What the history knows, as far as the user of the token may see it.

        Raises:
            NotSignedIn: there is no token.
            ApiError: the API server does not accept it, or the question cannot be answered.

        """
        kind, _, token = request.headers.get(TOKEN_HEADER, "").strip().rpartition(" ")
        if kind.lower() not in ("", "bearer"):
            token = ""  # nosec B105 # none
        async with self._sessions.asking(token) as (client, user):
            if self._past is None:
                raise NotFound(_NO_DATABASE)
            what = request.match_info["what"]
            try:
                async with asyncio.timeout(_SECONDS):
                    told = await self._past.answer(CommandViewer(client, user), what, dict(request.query))
            except TimeoutError as error:
                raise Unavailable(
                    f"the history gave no answer within {_SECONDS:.0f} s: ask for a shorter time"
                ) from error
        if told is None:
            raise NotFound(f"there is no question {what!r} about the history")
        return web.Response(body=told, content_type="application/json")
