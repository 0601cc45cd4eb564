"""Keeps the HyperNodes of sources that are asked from time to time in step with what these answer."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from unisono.api.core import Node
from unisono.api.kinds import HYPER_NODES, NODES, SECRETS
from unisono.api.topology_sources import Fetch, Question, SourceFailed, Switch, TopologySource
from unisono.controllers.hypernode.discovery_config import AskedSource, parse_config
from unisono.controllers.hypernode.discovery_controller import config_map_key, read_text, tell
from unisono.controllers.hypernode.sources import find_source, of_cluster
from unisono.controllers.hypernode.topology_file import hyper_nodes_of
from unisono.controllers.hypernode.writer import HyperNodeWriter, source_of
from unisono.controllers.recorder import Recorder
from unisono.errors import ApiError, NotFound
from unisono.kube.client import EventType
from unisono.kube.controller import Context, Controller

_CONFIG = "configuration"
# Seconds after which the configuration is read again, and a source that failed is asked again.
_AGAIN = 60.0
# A node that came is looked for earlier than the interval says, but not each time that one comes.
_NEW_NODE = 300.0
# No source takes longer; built-in ones give up earlier.
_PATIENCE = 60.0


class NoFetch:
    """Used where servers cannot be asked."""

    async def get(self, url: str, **_: object) -> bytes:
        """Always fails."""
        raise SourceFailed(f"{url} cannot be asked from here")


@dataclass(slots=True)
class _Known:
    """What was found out from one source.

    Attributes:
        asked: as it was configured then.
        at: when it was asked last.
        nodes: the cluster's at that time.
        switches: its last answer.
        problem: why the last look failed; empty when it did not.

    """

    asked: AskedSource
    at: float
    nodes: frozenset[str]
    switches: Mapping[str, Switch] | None = field(default=None)
    problem: str = ""


class HyperNodeSourceController(Controller):
    """One key for each source, so that one that does not answer keeps no other waiting."""

    name = "hyperNode-source-controller"
    workers = 4

    def __init__(
        self,
        recorder: Recorder,
        fetch: Fetch | None = None,
        config_map: tuple[str, str] | None = None,
        find: Callable[[str], TopologySource] = find_source,
    ) -> None:
        """Keep HyperNodes with what sources answer.

        Args:
            recorder: tells what is wrong at the ConfigMap.
            fetch: asks servers; without one no source with a server answers.
            config_map: namespace and name of the configuration; by default as ``config_map_key`` says.
            find: the source of a name.

        """
        self._recorder, self._fetch, self._find = recorder, fetch or NoFetch(), find
        self._config_map = config_map or config_map_key()
        self._asked: dict[str, AskedSource] = {}
        self._known: dict[str, _Known] = {}
        self._writers: dict[str, HyperNodeWriter] = {}

    def setup(self, context: Context) -> None:
        """Watch which nodes there are, and HyperNodes that go."""
        self._client, self._context, self._clock = context.client, context, context.clock
        self._nodes = context.informer(NODES)
        self._nodes.on_change(self._node_changed)
        self._hyper_nodes = context.informers.of(HYPER_NODES, optional=True)
        self._hyper_nodes.on_change(self._hyper_node_changed)

    async def start(self) -> None:
        """Read the configuration even where there are no nodes."""
        self._context.enqueue(_CONFIG)

    async def reconcile(self, key: str) -> float | None:
        """Read the configuration, or look at one source."""
        if key == _CONFIG:
            self._asked = parse_config(await read_text(self._client, self._config_map)).asked
            self._known = {name: known for name, known in self._known.items() if name in self._asked}
            for name in self._asked:
                self._context.enqueue(_key(name))
            return _AGAIN
        name = key.partition("/")[2]
        asked = self._asked.get(name)
        return None if asked is None else await self._look(name, asked)

    async def _look(self, name: str, asked: AskedSource) -> float:
        nodes = frozenset(each.metadata.name for each in self._nodes.items())
        known, now = self._known.get(name), self._clock.monotonic()
        if known is None or known.asked != asked or now >= known.at + _pause(known, nodes):
            known = await self._ask(name, asked, nodes, known)
        if known.switches is not None:
            wanted = hyper_nodes_of(of_cluster(known.switches, nodes), name)
            present = [each for each in self._hyper_nodes.items() if source_of(each) == name]
            await self._writer(name).apply(wanted, present)
        return max(1.0, known.at + _pause(known, nodes) - self._clock.monotonic())

    def _writer(self, name: str) -> HyperNodeWriter:
        if name not in self._writers:
            again = partial(self._context.enqueue, _key(name), 1.0)
            self._writers[name] = HyperNodeWriter(self._client, again)
        return self._writers[name]

    async def _ask(self, name: str, asked: AskedSource, nodes: frozenset[str], before: _Known | None) -> _Known:
        found = _Known(asked, self._clock.monotonic(), nodes, before.switches if before else None)
        found.problem = before.problem if before else ""
        self._known[name] = found
        try:
            question = Question(asked.config, nodes, self._fetch, await self._credentials(asked))
            async with asyncio.timeout(_PATIENCE):
                switches = await self._find(name).discover(question)
            of_cluster(switches, nodes)
            found.switches = switches
            self._tell(name, found, "")
        except TimeoutError:
            self._tell(name, found, f"the source does not answer within {_PATIENCE:g} s")
        except (SourceFailed, ApiError) as error:
            self._tell(name, found, str(error))
        except Exception as error:
            # Of a package that is not ours.
            self._tell(name, found, f"the source failed: {type(error).__name__}: {error}")
        return found

    async def _credentials(self, asked: AskedSource) -> dict[str, str]:
        if asked.secret is None:
            return {}
        namespace, name = asked.secret
        ours = self._config_map[0]
        if namespace not in ("", ours):
            # Who may write this ConfigMap may not read all Secrets, nor send them anywhere.
            raise SourceFailed(f"credentials.secretRef.namespace: the Secret must be in namespace {ours}")
        try:
            found = await self._client.get(SECRETS, name, ours)
        except NotFound as error:
            raise SourceFailed(f"credentials.secretRef: there is no Secret {ours}/{name}") from error
        try:
            return {key: base64.b64decode(text, validate=True).decode() for key, text in (found.data or {}).items()}
        except (binascii.Error, UnicodeDecodeError) as error:
            raise SourceFailed(f"credentials.secretRef: Secret {ours}/{name} has a value that is no text") from error

    def _tell(self, name: str, known: _Known, problem: str) -> None:
        if problem and problem != known.problem:
            tell(self._recorder, self._config_map, f"{known.asked.at} ({name}): {problem}")
        known.problem = problem

    def _node_changed(self, event_type: EventType, new: Node, old: Node | None) -> None:
        if event_type != "MODIFIED":
            for name in self._asked:
                self._context.enqueue(_key(name), 1.0)

    def _hyper_node_changed(self, event_type: EventType, new: object, old: object) -> None:
        if event_type == "DELETED":
            for name in self._asked:
                self._context.enqueue(_key(name), 1.0)


def _key(name: str) -> str:
    return f"source/{name}"


def _pause(known: _Known, nodes: frozenset[str]) -> float:
    """Seconds from the last look to the next."""
    if known.problem:
        return min(known.asked.interval, _AGAIN)
    return min(known.asked.interval, _NEW_NODE) if nodes - known.nodes else known.asked.interval
