"""Who is signed in: one-time codes, cookies, and one world per set of credentials; all in memory alone."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from unisono.api.annotations import tenant
from unisono.dashboard.codes import CODE_SECONDS, new_code, take_code
from unisono.dashboard.live.configuration import MOST_NAMESPACES, ConfigurationPlaces, who
from unisono.dashboard.live.jobs import Pool
from unisono.dashboard.live.world import World
from unisono.errors import ApiError, UnisonoError
from unisono.kube.clock import SYSTEM_CLOCK, Clock
from unisono.kube.http import HttpClient
from unisono.lazy_logs import LazyLogger

if TYPE_CHECKING:
    from aiohttp import web

    from unisono.kube.kubeconfig import ClusterConfig

# The worlds that pages look at, one for each set of credentials and namespaces, and when they end.

_log = LazyLogger(__name__)

_WORLD_SECONDS = 300.0
"""How long views are kept after the last look."""
_MOST_WORLDS_OF_ONE = 8


@dataclass(slots=True)
class Watched:
    """A world, and how many look at it."""

    world: World
    task: asyncio.Task[None]
    viewers: int = 0
    left: float = 0.0


class Worlds:
    """All worlds of one dashboard; ``open`` has them by the identity of their viewers, who share ``pool``.

    Args:
        client_of: makes the client for a viewer's configuration.
        clock: of this process.
        places: where the scheduler's configuration is looked for.
    """

    def __init__(
        self, client_of: Callable[[ClusterConfig], HttpClient], clock: Clock, places: ConfigurationPlaces
    ) -> None:
        self._client_of, self._clock, self._places, self.pool = client_of, clock, places, Pool()
        self.open: dict[str, Watched] = {}
        self._keeping: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """End all of them."""
        if self._keeping is not None:
            self._keeping.cancel()
        for identity in list(self.open):
            await self._end(identity)

    @contextmanager
    def looking(self, identity: str, config: ClusterConfig, user: str, namespaces: tuple[str, ...]) -> Iterator[World]:
        """A world, which runs until some time after the last viewer has left it.

        Args:
            identity: equal for the same credentials and namespaces.
            config: how the API server is asked for this viewer.
            user: name of the user.
            namespaces: to look into where the viewer may not look everywhere.

        Raises:
            ApiError: pages look at all worlds that the user may have.
        """
        watched = self.open.get(identity)
        if watched is None or watched.world.refused is not None or watched.task.done():
            self._make_room_for_world(user)
            world = World(
                self._client_of(config), user, namespaces, clock=self._clock, places=self._places, pool=self.pool
            )
            watched = self.open[identity] = Watched(world, asyncio.create_task(self._run(world)))
        if self._keeping is None or self._keeping.done():
            self._keeping = asyncio.create_task(self._keep())
        watched.viewers += 1
        try:
            yield watched.world
        finally:
            watched.viewers -= 1
            watched.left = self._clock.monotonic()

    def _make_room_for_world(self, user: str) -> None:
        """Each combination of namespaces has a world of its own, with dozens of watches.

        Raises:
            ApiError: pages look at all that the user may have.
        """
        own = {identity: each for identity, each in self.open.items() if each.world.user == user}
        if len(own) < _MOST_WORLDS_OF_ONE:
            return
        spare = min((key for key, each in own.items() if each.viewers <= 0), key=lambda key: own[key].left, default="")
        if not spare:
            why = "too many views of different namespaces are open: close some tabs"
            raise ApiError(why, code=429, reason="TooManyRequests")
        self.open.pop(spare).task.cancel()

    async def _run(self, world: World) -> None:
        try:
            await world.run()
        except Exception:
            _log.exception("dashboard.world_failed", user=world.user)
        finally:
            await world.client.close()

    async def _keep(self) -> None:
        """End worlds that no page has shown for a while."""
        while self.open:
            await self._clock.sleep(_WORLD_SECONDS / 10)
            now = self._clock.monotonic()
            for identity, watched in list(self.open.items()):
                if watched.viewers <= 0 and now - watched.left > _WORLD_SECONDS:
                    await self._end(identity)

    async def _end(self, identity: str) -> None:
        watched = self.open.pop(identity)
        watched.task.cancel()
        await asyncio.gather(watched.task, return_exceptions=True)


IDLE_SECONDS = 12 * 3600.0
"""A session ends when nothing was asked with it for so long."""
MOST_SESSIONS = 500
MOST_SESSIONS_OF_ONE = 20
"""Sessions of one user: one more sign-in ends the user's own oldest session, and no other user's."""
MOST_STREAMS = 32
"""Open streams of one session."""
MOST_STREAMS_OF_ONE = 64
"""Open streams of all sessions of one user."""
_MOST_CODES = 100


class NotSignedIn(UnisonoError):
    """The request does not say who asks, or the one it names may not ask any more."""


@dataclass(slots=True)
class Session:
    """A signed-in viewer.

    Attributes:
        cookie: what the browser keeps and no script can read.
        key: what the page keeps and sends as a header; no other site can read it.
        user: name of the user.
        config: how the API server is asked for this viewer.
        namespaces: to look into where the viewer may not look everywhere.
        seen: when it was last used (monotonic seconds).
        streams: requests for views that are open.
        proxied: a proxy has said whose it is, and goes on to do so.
    """

    cookie: str
    key: str
    user: str
    config: ClusterConfig = field(repr=False)
    namespaces: tuple[str, ...] = ()
    seen: float = 0.0
    streams: list[web.Request] = field(default_factory=list, repr=False)
    proxied: bool = False

    @property
    def identity(self) -> str:
        """Equal for sessions with the same credentials that look into the same namespaces."""
        credentials = repr(
            (
                self.config.token,
                self.config.client_certificate,
                self.config.username,
                self.config.password,
                self.config.token_file,
                self.config.exec_plugin,
                self.config.auth_provider,
                self.config.impersonate,
                self.namespaces,
            )
        )
        return hashlib.sha256(credentials.encode()).hexdigest()


class Sessions:
    """All sessions of one dashboard.

    Args:
        base: address and trust of the API server; its credentials are only used for one-time codes.
        codes: folder of one-time codes for the credentials in ``base``; None for none.
        clock: of this process.
        client_of: makes the client for a viewer's configuration.
        places: where the scheduler's configuration is looked for.

    Attributes:
        base: the same without credentials.
    """

    def __init__(
        self,
        base: ClusterConfig,
        *,
        codes: Path | None = None,
        clock: Clock = SYSTEM_CLOCK,
        client_of: Callable[[ClusterConfig], HttpClient] = HttpClient,
        places: ConfigurationPlaces | None = None,
    ) -> None:
        self._own, self._folder = base, codes
        self.base = without_credentials(base)
        self._clock, self._client_of = clock, client_of
        self._codes: dict[str, tuple[float, ClusterConfig]] = {}
        self._sessions: dict[str, Session] = {}
        self._worlds = Worlds(client_of, clock, places or ConfigurationPlaces())
        self._closed = False
        self._began = clock.monotonic()

    async def close(self) -> None:
        """Forget all sessions."""
        # A page that is told that its server stops shows what it knows; one that is signed out does not.
        self._closed = True
        self._sessions.clear()
        self._codes.clear()
        await self._worlds.close()

    # ---- signing in and out

    def code_for(self, config: ClusterConfig) -> str:
        """A code that signs one browser in with these credentials, once and soon."""
        self._forget_codes()
        if len(self._codes) >= _MOST_CODES:
            self._codes.pop(next(iter(self._codes)))
        code = new_code()
        self._codes[code] = (self._clock.monotonic() + CODE_SECONDS, config)
        return code

    async def with_code(self, code: str) -> Session:
        """The session of a one-time code.

        Raises:
            NotSignedIn: the code was used, is too old, or never was one.
            ApiError: the server does not accept the credentials.
        """
        self._forget_codes()
        _, config = self._codes.pop(code, (0.0, None))
        if config is None and self._folder is not None and take_code(self._folder, code, self._clock.time()):
            config = self._own
        if config is None:
            raise NotSignedIn("This link was used already, or is too old: run 'unisono dashboard' for a new one.")
        return await self._open(config, (config.namespace,))

    async def with_token(self, token: str, namespaces: Sequence[str] = ()) -> Session:
        """The session of a bearer token of the API server.

        Raises:
            NotSignedIn: it is no token.
            ApiError: the server does not accept it.
        """
        return await self._open(self._config_of(token), tuple(namespaces)[:MOST_NAMESPACES])

    @asynccontextmanager
    async def asking(self, token: str) -> AsyncIterator[tuple[HttpClient, str]]:
        """Client and name of a user who asks one question with a bearer token of the API server; there is no session.

        Raises:
            NotSignedIn: it is no token.
            ApiError: the server does not accept it.
        """
        config = self._config_of(token)
        user = await self._user_of(config)
        client = self._client_of(config)
        try:
            yield client, user
        finally:
            await client.close()

    def _config_of(self, token: str) -> ClusterConfig:
        token = token.strip()
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise NotSignedIn("Give a token of the API server, such as 'kubectl create token NAME' prints.")
        return replace(self.base, token=token)

    async def renew(self, session: Session, token: str) -> None:
        """Go on with another token of the same user, as proxies get one before the last one ends.

        Raises:
            NotSignedIn: it is another user's; the session is ended.
            ApiError: the server does not accept it.
        """
        renewed = replace(session.config, token=token)
        if await self._user_of(renewed) != session.user:
            self.end(session)
            raise NotSignedIn("another user has signed in at the proxy.")
        session.config = renewed

    def find(self, cookie: str, key: str) -> Session:
        """The session of a request.

        Raises:
            NotSignedIn: there is none.
        """
        session = self._sessions.get(cookie)
        now = self._clock.monotonic()
        if session is None or not hmac.compare_digest(session.key.encode(), key.encode()):
            # Who brings a key was signed in once.
            raise NotSignedIn("the dashboard was restarted, or you have signed out." if key else "Sign in first.")
        if now - session.seen > IDLE_SECONDS and not session.streams:
            self.end(session)
            raise NotSignedIn("nothing was asked for a long time.")
        session.seen = now
        return session

    def end(self, session: Session) -> None:
        """Sign out."""
        self._sessions.pop(session.cookie, None)

    def alive(self, session: Session) -> bool:
        """Whether the session was not ended; when all end, since the server stops, none is told so."""
        return self._closed or session.cookie in self._sessions

    async def _open(self, config: ClusterConfig, namespaces: tuple[str, ...]) -> Session:
        user = await self._user_of(config)
        self._make_room(user)
        session = Session(secrets.token_urlsafe(32), secrets.token_urlsafe(32), user, config, namespaces)
        session.seen = self._clock.monotonic()
        self._sessions[session.cookie] = session
        _log.info("dashboard.signed_in", user=user)
        return session

    async def _user_of(self, config: ClusterConfig) -> str:
        client = self._client_of(config)
        try:
            user = (await who(client)).username or ""
        finally:
            await client.close()
        if user in ("", "system:anonymous"):
            raise ApiError("the server does not accept these credentials", code=401, reason="Unauthorized")
        return user

    def _make_room(self, user: str) -> None:
        """End the user's oldest session, or that of the tenant that has the most, where there are too many."""
        of_tenant: dict[str, list[Session]] = {}
        for session in self._sessions.values():
            of_tenant.setdefault(tenant(session.user), []).append(session)
        own = [session for session in of_tenant.get(tenant(user), []) if session.user == user]
        if len(own) < MOST_SESSIONS_OF_ONE and len(self._sessions) < MOST_SESSIONS:
            return
        crowd = own if len(own) >= MOST_SESSIONS_OF_ONE else max(of_tenant.values(), key=len)
        self.end(min(crowd, key=lambda each: each.seen))

    def streams_of(self, user: str) -> int:
        """Open streams of all sessions of a user."""
        return sum(len(session.streams) for session in self._sessions.values() if session.user == user)

    def _forget_codes(self) -> None:
        now = self._clock.monotonic()
        self._codes = {code: each for code, each in self._codes.items() if each[0] > now}

    @property
    def idle_since(self) -> float | None:
        """When the last request came (monotonic seconds); None while a page is open."""
        if any(session.streams for session in self._sessions.values()):
            return None
        return max((session.seen for session in self._sessions.values()), default=self._began)

    def looking(self, session: Session) -> AbstractContextManager[World]:
        """The world of a session, which runs until some time after the last viewer has left it.

        Raises:
            ApiError: pages look at all worlds that the user may have.
        """
        return self._worlds.looking(session.identity, session.config, session.user, session.namespaces)


def without_credentials(config: ClusterConfig) -> ClusterConfig:
    """Address and trust of a server, without credentials."""
    return replace(
        config,
        client_certificate=None,
        client_key=None,
        token=None,
        token_file=None,
        username=None,
        password=None,
        exec_plugin=None,
        auth_provider=None,
        impersonate=(),
    )
