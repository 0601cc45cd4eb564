"""The dashboard's requests: the page's files, sessions, streams of views, logs, objects and actions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import yaml
from aiohttp import web

from unisono.api.field_error import UNREADABLE
from unisono.dashboard.http import actions, guard
from unisono.dashboard.http.actions import Events, JobRef, batches, follow, has_left, kind_of
from unisono.dashboard.http.sessions import MOST_STREAMS, MOST_STREAMS_OF_ONE, NotSignedIn, Session, Sessions
from unisono.dashboard.live import pages
from unisono.dashboard.live.configuration import configuration_of, namespaces_of
from unisono.dashboard.live.elsewhere import Turns
from unisono.dashboard.live.futures import futures
from unisono.dashboard.live.searching import search
from unisono.dashboard.live.viewing import CommandViewer, PageViewer, Past
from unisono.dashboard.live.world import shares
from unisono.dashboard.views.explanation import with_people
from unisono.dashboard.views.nodes import NodeQuery
from unisono.dashboard.views.table import Query
from unisono.dashboard.views.why import ExplanationView
from unisono.dashboard.views.wire import Done, Refused, Who, Wire
from unisono.errors import ApiError, NotFound, Unavailable, UnisonoError
from unisono.history import report as history_answers
from unisono.history.queue_shares import Series
from unisono.kube.http import HttpClient
from unisono.lazy_logs import LazyLogger

if TYPE_CHECKING:
    from unisono.dashboard.live.world import World

# Questions of commands: one request with a token and no session, answered with the rights of that token.

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
        kind, _, token = request.headers.get(guard.TOKEN_HEADER, "").strip().rpartition(" ")
        if kind.lower() not in ("", "bearer"):
            token = ""  # nosec B105 # none
        async with self._sessions.asking(token) as (client, user):
            if self._past is None:
                raise NotFound(_NO_DATABASE)
            what = request.match_info["what"]
            try:
                async with asyncio.timeout(_SECONDS):
                    encoded = await self._past.answer(CommandViewer(client, user), what, dict(request.query))
            except TimeoutError as error:
                raise Unavailable(
                    f"the history gave no answer within {_SECONDS:.0f} s: ask for a shorter time"
                ) from error
        if encoded is None:
            raise NotFound(f"there is no question {what!r} about the history")
        return web.Response(body=encoded, content_type="application/json")


_log = LazyLogger(__name__)
T = TypeVar("T")
Handler = Callable[[web.Request, Session], Awaitable[web.StreamResponse]]

_MOST_BYTES = 1 << 20
_SEARCHES_OF_ONE = 4
"""Pages of jobs of one user that look for fixes; they wait for each other."""
_INDEX = "/index.html"
_ASSETS = "/assets/"


class SignIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A one-time code, or a token and the namespaces to look into."""

    code: str = ""
    token: str = ""
    namespaces: list[str] = []


class LogQuery(actions.JobRef):
    """Whose log is wanted: a job's, or one pod's."""

    container: str = ""
    tail: int = 500


class Dashboard:
    """Answers requests.

    Args:
        sessions: who is signed in.
        files: of the page.
        hosts: Host headers that are this server's.
        server: the API server's address, as people are told it.
        secure: the page is reached over HTTPS.
        token_header: in which an authenticating proxy sends the user's token; empty for none.
        past: where the history is that the API server does not keep; None for nowhere.
    """

    def __init__(
        self,
        sessions: Sessions,
        files: Mapping[str, guard.File],
        hosts: Collection[str],
        *,
        server: str = "",
        secure: bool = False,
        token_header: str = "",
        past: Past | None = None,
    ) -> None:
        self._past = past
        self._sessions, self._files, self._hosts = sessions, files, hosts
        self._server, self._secure, self._token_header = server, secure, token_header
        self._turns, self._searching = Turns(), Turns(of_one=_SEARCHES_OF_ONE)
        self.cookie = "unisono-session"

    def app(self) -> web.Application:
        """The application."""
        app = web.Application(middlewares=[self._guarded], client_max_size=_MOST_BYTES)
        app.router.add_post("/api/session", self._sign_in)
        app.router.add_get("/api/session", self._signed(self._who))
        app.router.add_delete("/api/session", self._signed(self._sign_out))
        app.router.add_get("/api/views/{view}", self._signed(self._stream))
        app.router.add_get("/api/logs", self._signed(self._logs))
        app.router.add_get("/api/object", self._signed(self._object))
        app.router.add_get("/api/history/{what:[a-z]+}", self._signed(self._history))
        app.router.add_get(f"{guard.QUESTIONS}history/{{what:[a-z]+}}", Questions(self._sessions, self._past).history)
        app.router.add_get("/api/configuration", self._signed(self._configuration))
        app.router.add_post("/api/search", self._signed(self._search))
        app.router.add_post("/api/fix", self._signed(self._fix))
        app.router.add_post("/api/job", self._action(actions.ChangeJob, actions.change_job))
        app.router.add_post("/api/queue", self._action(actions.ChangeQueue, actions.change_queue))
        app.router.add_post("/api/whatif", self._signed(self._what_if))
        app.router.add_post("/api/node", self._action(actions.Cordon, actions.cordon))
        app.router.add_get("/{path:.*}", self._file)
        app.on_response_prepare.append(_secured)
        return app

    # ---- every request

    @web.middleware
    async def _guarded(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        scheme = "https" if self._secure else "http"
        if why := guard.refusal(request.method, request.path, request.headers, self._hosts, scheme):
            return _refused(why, 403)
        try:
            return await handler(request)
        except NotSignedIn as error:
            return _refused(str(error), 401)
        except ApiError as error:
            return _refused(error.message, error.code)
        except UnisonoError as error:
            return _refused(str(error), 400)
        except UNREADABLE as error:
            return _refused(str(error), 400)
        except web.HTTPException as error:
            return _refused(error.reason, error.status)
        except ConnectionError:
            raise
        except Exception:
            _log.exception("dashboard.request_failed", path=request.path)
            return _refused("The dashboard failed; its log says more.", 500)

    def _signed(self, handler: Handler) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """A handler for requests with a session alone."""

        async def signed(request: web.Request) -> web.StreamResponse:
            cookie, key = request.cookies.get(self.cookie, ""), request.headers.get(guard.KEY_HEADER, "")
            session = self._sessions.find(cookie, key)
            if session.proxied and (token := self._token_of(request)) and token != session.config.token:
                await self._sessions.renew(session, token)
            return await handler(request, session)

        return signed

    def _action(self, body: type[T], act: Callable[[HttpClient, T], Awaitable[str]]) -> Any:
        async def handler(request: web.Request, session: Session) -> web.StreamResponse:
            asked = msgspec.json.decode(await request.read(), type=body)
            with self._sessions.looking(session) as world:
                return _json(Done(message=await act(world.client, asked)))

        return self._signed(handler)

    # ---- the page and its sessions

    async def _file(self, request: web.Request) -> web.StreamResponse:
        if not self._files:
            return web.Response(status=503, text=f"{guard.HOW_TO_BUILD}\n")
        path = request.path
        if path.startswith("/api/"):
            return _refused("There is no such view.", 404)
        # All addresses that are no file are the page's own, which it reads itself.
        name = path if path.startswith(_ASSETS) or path in self._files else _INDEX
        file = self._files.get(name)
        if file is None:
            return _refused("There is no such file.", 404)
        kept = "public, max-age=31536000, immutable" if name.startswith(_ASSETS) else "no-cache"
        headers = {"Cache-Control": kept, "Content-Type": file.content_type}
        return web.Response(body=file.body, headers=headers)

    async def _sign_in(self, request: web.Request) -> web.StreamResponse:
        asked = msgspec.json.decode(await request.read(), type=SignIn)
        if asked.code:
            session = await self._sessions.with_code(asked.code)
        elif not asked.token and (token := self._token_of(request)):
            session = await self._sessions.with_token(token, asked.namespaces)
            session.proxied = True
        else:
            session = await self._sessions.with_token(asked.token, asked.namespaces)
        answer = _json(Who(user=session.user, key=session.key, server=self._server))
        answer.set_cookie(
            self.cookie, session.cookie, path="/api/", httponly=True, samesite="Strict", secure=self._secure
        )
        return answer

    def _token_of(self, request: web.Request) -> str:
        """The token that a proxy sends with a request; the API server says whether it is one, and whose."""
        if not self._token_header:
            return ""
        kind, _, token = request.headers.get(self._token_header, "").strip().rpartition(" ")
        return token if kind.lower() in ("", "bearer") else ""

    async def _who(self, _: web.Request, session: Session) -> web.StreamResponse:
        with self._sessions.looking(session) as world:
            namespaces = await namespaces_of(world.client, session.user, session.namespaces)
            fleet = await world.has_fleet()
        return _json(Who(user=session.user, namespaces=namespaces, fleet=fleet, server=self._server))

    async def _sign_out(self, _: web.Request, session: Session) -> web.StreamResponse:
        self._sessions.end(session)
        answer = _json(Done(message="You are signed out."))
        answer.del_cookie(self.cookie, path="/api/")
        return answer

    # ---- views

    async def _stream(self, request: web.Request, session: Session) -> web.StreamResponse:
        with _counted(request, session, self._sessions), self._sessions.looking(session) as world:
            try:
                page = page_of(world, request.match_info["view"], dict(request.query))
            except UnknownView as error:
                return _refused(str(error), 404)
            try:
                async with Events(request) as events:
                    with suppress(ConnectionError):
                        await follow(events, world, page, lambda: self._sessions.alive(session))
                return events.response
            finally:
                await page.close()

    async def _logs(self, request: web.Request, session: Session) -> web.StreamResponse:
        asked = msgspec.convert(dict(request.query), LogQuery, strict=False)
        with _counted(request, session, self._sessions), self._sessions.looking(session) as world:
            kind = actions.kind_of(asked.api_version, asked.kind)
            source = batches(world.client, kind, asked.namespace, asked.name, asked.container, asked.tail)
            async with aclosing(source), Events(request) as events:
                with suppress(ConnectionError):
                    async for batch in source:
                        if not self._sessions.alive(session):
                            break
                        await (events.send(batch.event, batch.data) if batch.event else events.look())
            return events.response

    async def _what_if(self, request: web.Request, session: Session) -> web.StreamResponse:
        asked = msgspec.json.decode(await request.read(), type=actions.WhatIf)
        async with self._turns.taken(session.user):
            with self._sessions.looking(session) as world:
                configuration = await configuration_of(world.client, world.places)
                return _json(await futures(world.client, asked.changes, configuration))

    async def _search(self, request: web.Request, session: Session) -> web.StreamResponse:
        """What keeps a job and what would start it, tried on a copy of the cluster."""
        asked = msgspec.json.decode(await request.read(), type=actions.JobRef)
        job = actions.kind_of(asked.api_version, asked.kind), asked.namespace, asked.name
        with self._sessions.looking(session) as world:
            if (cached := world.searches.fresh(*job, world.monotonic)) is not None:
                return _json(cached)
            async with self._searching.taken(session.user):
                result = await search(world.client, *job, world.monotonic)
            with_people(result.view, world.jobs.rows().values())
            world.searches.keep(*job, result)
            return _json(result.view)

    async def _fix(self, request: web.Request, session: Session) -> web.StreamResponse:
        asked = msgspec.json.decode(await request.read(), type=actions.ApplyFix)
        job = actions.kind_of(asked.api_version, asked.kind), asked.namespace, asked.name
        with self._sessions.looking(session) as world:
            shown = world.searches.fix(*job, asked.id, world.monotonic)
            return _json(Done(message=await actions.apply(world.client, asked, shown)))

    async def _configuration(self, _: web.Request, session: Session) -> web.StreamResponse:
        with self._sessions.looking(session) as world:
            return _json(await configuration_of(world.client, world.places))

    async def _history(self, request: web.Request, session: Session) -> web.StreamResponse:
        """What the API server knows of the past, and shows to this viewer."""
        what = request.match_info["what"]
        path = f"{history_answers.PATH}/{what}"
        with self._sessions.looking(session) as world:
            if self._past is not None:
                told_by_it = await self._past.answer(PageViewer(world), what, dict(request.query))
                if told_by_it is None:
                    return _refused("There is no such view.", 404)
                return web.Response(body=told_by_it, content_type="application/json")
        with self._sessions.looking(session) as world:
            status, _, body = await world.client.request("GET", path, params=dict(request.query))
            if status == 404 and what == "shares":
                return _json(shares(world.samples, request.query, round(1000 * world.now)))
        if status >= 400:
            failure = _status(body)
            return _refused(str(failure.get("message") or f"the server answered {status}"), status)
        return web.Response(body=body, content_type="application/json")

    async def _object(self, request: web.Request, session: Session) -> web.StreamResponse:
        asked = msgspec.convert(dict(request.query), actions.JobRef)
        kind = actions.kind_of(asked.api_version, asked.kind)
        with self._sessions.looking(session) as world:
            path = kind.path(asked.namespace if kind.namespaced else None, asked.name)
            status, _, body = await world.client.request("GET", path)
        document = _status(body)
        if status >= 400:
            return _refused(str(document.get("message") or f"the server answered {status}"), status)
        (document.get("metadata") or {}).pop("managedFields", None)
        # Seconds for a large object: beside the loop.
        text = await asyncio.to_thread(_as_yaml, document)
        return _json(Done(message=text))


async def _secured(request: web.Request, response: web.StreamResponse) -> None:
    for name, value in guard.SECURITY_HEADERS.items():
        response.headers[name] = value
    response.headers["Server"] = "unisono"  # and not which versions of what
    if request.path.startswith("/api/"):
        response.headers["Cache-Control"] = "no-store"


@contextmanager
def _counted(request: web.Request, session: Session, sessions: Sessions) -> Iterator[None]:
    """Hold one of a session's streams."""
    if (
        sum(not has_left(each) for each in session.streams) >= MOST_STREAMS
        or sessions.streams_of(session.user) >= MOST_STREAMS_OF_ONE
    ):
        raise ApiError("too many views are open: close some tabs", code=429, reason="TooManyRequests")
    session.streams.append(request)
    try:
        yield
    finally:
        session.streams.remove(request)


def _as_yaml(found: dict[str, Any]) -> str:
    return str(yaml.safe_dump(found, sort_keys=False, default_flow_style=False, allow_unicode=True))


def _status(body: bytes) -> dict[str, Any]:
    """What a server says of itself; nothing of an answer that is no object."""
    try:
        decoded = msgspec.json.decode(body or b"{}")
    except UNREADABLE:
        return {}
    return decoded if isinstance(decoded, dict) else {}


def _json(value: Wire | ExplanationView | Series) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")


def _refused(why: str, code: int) -> web.Response:
    return web.Response(
        status=code, body=msgspec.json.encode(Refused(error=why, code=code)), content_type="application/json"
    )


class UnknownView(UnisonoError):
    """There is no view of that name."""


def page_of(world: World, view: str, query: Mapping[str, str]) -> pages.Page:
    """The page that a view's name and its parameters mean.

    Raises:
        UnknownView: there is none of that name.
        ValidationError: the parameters are not the view's.
        NotFound: the kind of job is not known.
    """
    match view:
        case "overview":
            return pages.OverviewPage(world)
        case "jobs":
            return pages.JobsPage(world, msgspec.convert(dict(query), Query, strict=False))
        case "queues":
            return pages.QueuesPage(world)
        case "fleet":
            return pages.FleetPage(world)
        case "scheduler":
            return pages.SchedulerPage(world)
        case "nodes":
            return pages.NodesPage(world, msgspec.convert(dict(query), NodeQuery, strict=False))
        case "job":
            ref = msgspec.convert(dict(query), JobRef)
            return pages.JobPage(world, kind_of(ref.api_version, ref.kind), ref.namespace, ref.name)
    raise UnknownView(f"There is no view {view!r}.")
