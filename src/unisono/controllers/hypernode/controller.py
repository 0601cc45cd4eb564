"""Controllers of the network's tree: the state of HyperNodes, and their discovery from labels and network tools."""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

import structlog

from unisono.api.base import ObjectMeta
from unisono.api.core import ConfigMap, Node
from unisono.api.groups.topology import HyperNode, HyperNodeStatus, MemberSelector
from unisono.api.kinds import CONFIG_MAPS, HYPER_NODES, NODES, SECRETS
from unisono.api.patterns import PatternError, compile_pattern
from unisono.api.selecting import is_empty, selects
from unisono.api.topology_sources import Fetch, Question, SourceFailed, Switch, TopologySource
from unisono.controllers.hypernode import discovery
from unisono.controllers.hypernode.sources import find_source, of_cluster
from unisono.controllers.objects import LastWritten, delete_seen, to_json, write_status
from unisono.controllers.recorder import Recorder
from unisono.errors import AlreadyExists, ApiError, Conflict, NotFound, Unavailable
from unisono.kube.client import Client, EventType
from unisono.kube.controller import Context, Controller


def count_members(hyper_node: HyperNode, nodes: Mapping[str, Node], hyper_nodes: Iterable[str]) -> int:
    """How many nodes and HyperNodes the members name; each counts once, what does not exist not at all.

    Args:
        hyper_node: whose members are counted.
        nodes: all nodes by name.
        hyper_nodes: names of all HyperNodes.
    """
    existing, children, node_names = set(hyper_nodes), set[str](), set[str]()
    for member in hyper_node.spec.members or ():
        selector = member.selector
        if selector is None:
            continue
        if member.type == "HyperNode":
            name = selector.exact_match.name if selector.exact_match is not None else None
            children |= {name} & existing if name else set()
        else:
            node_names |= set(_nodes(selector, nodes))
    return len(node_names) + len(children)


def _nodes(selector: MemberSelector, nodes: Mapping[str, Node]) -> Iterable[str]:
    if selector.exact_match is not None:
        name = selector.exact_match.name or ""
        return [name] if name in nodes else []
    if selector.regex_match is not None:
        try:
            pattern = compile_pattern(selector.regex_match.pattern or "")
        except PatternError:
            return []
        return [name for name in nodes if pattern.found_in(name)]
    labels = selector.label_match
    if labels is None or is_empty(labels):
        return []
    return [name for name, node in nodes.items() if selects(labels, node.metadata.labels)]


# No HyperNode has this name: all of them are to be looked at.
ALL = "*"


class HyperNodeController(Controller):
    """Keeps ``status.nodeCount``."""

    name = "hyperNode-controller"
    workers = 4

    def __init__(self) -> None:
        self._written: LastWritten[HyperNode] = LastWritten()

    def setup(self, context: Context) -> None:
        """Watch HyperNodes, and names and labels of nodes."""
        self._hyper_nodes = context.watch(HYPER_NODES, optional=True)
        self._hyper_nodes.on_change(self._hyper_node_changed)
        self._nodes = context.informer(NODES)
        self._nodes.on_change(self._node_changed)

    async def reconcile(self, key: str) -> float | None:
        """Count the members of one HyperNode, or have all of them counted."""
        if key == ALL:
            for each in self._hyper_nodes.items():
                self._context.enqueue(each.key)
            return None
        hyper_node = self._written.newest(key, self._hyper_nodes.get(key))
        if hyper_node is None or hyper_node.metadata.deletion_timestamp:
            return None
        nodes = {node.metadata.name: node for node in self._nodes.items()}
        number = count_members(hyper_node, nodes, self._hyper_nodes.keys())
        status = HyperNodeStatus(conditions=hyper_node.status.conditions, node_count=number)
        try:
            self._written.keep(await write_status(self._client, HYPER_NODES, hyper_node, status))
        except NotFound:
            return None
        return None

    def _node_changed(self, event_type: EventType, new: Node, old: Node | None) -> None:
        if event_type == "MODIFIED" and old is not None and old.metadata.labels == new.metadata.labels:
            return
        self._context.enqueue(ALL)

    def _hyper_node_changed(self, event_type: EventType, _new: HyperNode, _old: HyperNode | None) -> None:
        if event_type != "MODIFIED":
            self._context.enqueue(ALL)


# Keeps the HyperNodes of every source as it says: labels, a file, or a server that is asked time and again.

# Bringing the HyperNodes of one source to what the source says now.

_log = structlog.get_logger(__name__)


def source_of(hyper_node: HyperNode) -> str:
    """From what it was made; empty for those that were made by hand or by another system."""
    return (hyper_node.metadata.labels or {}).get(discovery.SOURCE, "")


class HyperNodeWriter:
    """Makes, changes and deletes HyperNodes that carry the label of a source, and no others.

    Args:
        client: the API.
        vanished: called when one is gone that was to be changed.
    """

    def __init__(self, client: Client, vanished: Callable[[], None]) -> None:
        self._client, self._vanished = client, vanished
        # By name: what the server last refused of a HyperNode.
        self._refused: dict[str, str] = {}

    async def apply(self, wanted: Mapping[str, HyperNode], present: Iterable[HyperNode]) -> None:
        """Bring those of one source to ``wanted``; ``present`` are those that there are."""
        by_name = {each.metadata.name: each for each in present}
        self._refused = {name: text for name, text in self._refused.items() if name in {*wanted, *by_name}}
        # Narrow domains first, so that no HyperNode names one that does not exist yet.
        for each in sorted(wanted.values(), key=lambda one: (one.spec.tier or 0, one.metadata.name)):
            before = by_name.get(each.metadata.name)
            if before is None:
                await self._one(each, self._create)
            elif before.spec != each.spec:
                await self._one(each, self._change)
        for name, old in by_name.items():
            if name not in wanted and not old.metadata.deletion_timestamp:
                await self._one(old, self._delete)

    async def _one(self, hyper_node: HyperNode, work: Callable[[HyperNode], Awaitable[None]]) -> None:
        """Work on one HyperNode; what the server refuses of it does not keep the others waiting."""
        name = hyper_node.metadata.name
        try:
            await work(hyper_node)
        except (Conflict, Unavailable):
            raise
        except ApiError as error:
            if self._refused.get(name) != str(error):
                _log.warning("topology.refused", hyper_node=name, problem=str(error))
            self._refused[name] = str(error)
        else:
            self._refused.pop(name, None)

    async def _delete(self, hyper_node: HyperNode) -> None:
        await delete_seen(self._client, HYPER_NODES, hyper_node)

    async def _create(self, hyper_node: HyperNode) -> None:
        try:
            await self._client.create(HYPER_NODES, hyper_node)
        except AlreadyExists:
            existing = await self._client.get(HYPER_NODES, hyper_node.metadata.name)
            if source_of(existing) != source_of(hyper_node):
                name = hyper_node.metadata.name
                _log.warning("topology.name_taken", hyper_node=name, problem="it was made otherwise; rename it")

    async def _change(self, hyper_node: HyperNode) -> None:
        patch = {"spec": to_json(hyper_node.spec)}
        try:
            await self._client.patch(HYPER_NODES, hyper_node.metadata.name, patch)
        except NotFound:
            self._vanished()


# Keeps the HyperNodes that are made from labels of nodes or from a topology file in step with these.

_WORK = "discovery"
# Seconds after which the configuration is read again.
_AGAIN = 60.0
# Many nodes change at once when a cluster starts; they are looked at together.
_SETTLE = 1.0


def config_map_key() -> tuple[str, str]:
    """Namespace and name of the ConfigMap, found as Volcano finds it: by the environment of its Helm chart."""
    release = os.environ.get("HELM_RELEASE_NAME") or "volcano"
    return os.environ.get("KUBE_POD_NAMESPACE") or "volcano-system", f"{release}-controller-configmap"


async def read_text(client: Client, config_map: tuple[str, str]) -> str:
    """The configuration of discovery; empty where there is none."""
    namespace, name = config_map
    try:
        live = await client.get(CONFIG_MAPS, name, namespace)
    except NotFound:
        return ""
    return (live.data or {}).get(discovery.KEY, "")


def tell(recorder: Recorder, config_map: tuple[str, str], problem: str) -> None:
    """Say what is wrong in the log, and as an event of the ConfigMap."""
    namespace, name = config_map
    _log.warning("topology.config", config_map=f"{namespace}/{name}", problem=problem)
    about = ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace))
    recorder.event(about, "Warning", "TopologyNotDiscovered", problem)


class HyperNodeDiscoveryController(Controller):
    """Makes, changes and deletes HyperNodes with label ``volcano.sh/network-topology-source``, and no others.

    Its sources are ``label`` and ``file``.
    """

    name = "hyperNode-discovery-controller"
    workers = 1

    def __init__(self, recorder: Recorder, config_map: tuple[str, str] | None = None) -> None:
        """Keep HyperNodes with labels and files.

        Args:
            recorder: tells what is wrong at the ConfigMap.
            config_map: namespace and name of the configuration; by default as ``config_map_key`` says.
        """
        self._recorder, self._config_map = recorder, config_map or config_map_key()
        self._told: list[str] = []

    def setup(self, context: Context) -> None:
        """Watch labels of nodes, and HyperNodes that come or go."""
        self._nodes = context.informer(NODES)
        self._nodes.on_change(self._node_changed)
        self._hyper_nodes = context.informers.of(HYPER_NODES, optional=True)
        self._hyper_nodes.on_change(self._hyper_node_changed)
        self._writer = HyperNodeWriter(context.client, lambda: context.enqueue(_WORK, _SETTLE))

    async def start(self) -> None:
        """Look once even where there are no nodes."""
        self._context.enqueue(_WORK)

    async def reconcile(self, key: str) -> float | None:
        """Bring the HyperNodes to what the labels say now."""
        config = await self._read()
        self._tell(config.problems)
        hyper_nodes = self._hyper_nodes.items()
        if config.types is not None:
            present = [each for each in hyper_nodes if source_of(each) == discovery.LABEL_SOURCE]
            domains = discovery.find_domains(config.types, self._nodes.items())
            await self._writer.apply(discovery.wanted_hyper_nodes(domains, present, discovery.LABEL_SOURCE), present)
        if config.switches is not None:
            present = [each for each in hyper_nodes if source_of(each) == discovery.FILE_SOURCE]
            await self._writer.apply(discovery.hyper_nodes_of(config.switches, discovery.FILE_SOURCE), present)
        return _AGAIN

    async def _read(self) -> discovery.DiscoveryConfig:
        return discovery.parse_config(await read_text(self._client, self._config_map))

    def _tell(self, problems: list[str]) -> None:
        for problem in problems:
            if problem not in self._told:
                tell(self._recorder, self._config_map, problem)
        self._told = problems

    def _node_changed(self, event_type: EventType, new: Node, old: Node | None) -> None:
        if event_type == "MODIFIED" and old is not None and old.metadata.labels == new.metadata.labels:
            return
        self._context.enqueue(_WORK, _SETTLE)

    def _hyper_node_changed(self, event_type: EventType, new: HyperNode, old: HyperNode | None) -> None:
        if source_of(new) and (old is None or event_type == "DELETED" or new.spec != old.spec):
            self._context.enqueue(_WORK, _SETTLE)


# Keeps the HyperNodes of sources that are asked from time to time in step with what these answer.

_CONFIG = "configuration"
# Seconds after which the configuration is read again, and a source that failed is asked again.
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

    asked: discovery.AskedSource
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
        self._asked: dict[str, discovery.AskedSource] = {}
        self._known: dict[str, _Known] = {}
        self._writers: dict[str, HyperNodeWriter] = {}

    def setup(self, context: Context) -> None:
        """Watch which nodes there are, and HyperNodes that go."""
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
            self._asked = discovery.parse_config(await read_text(self._client, self._config_map)).asked
            self._known = {name: known for name, known in self._known.items() if name in self._asked}
            for name in self._asked:
                self._context.enqueue(_key(name))
            return _AGAIN
        name = key.partition("/")[2]
        asked = self._asked.get(name)
        return None if asked is None else await self._look(name, asked)

    async def _look(self, name: str, asked: discovery.AskedSource) -> float:
        nodes = frozenset(each.metadata.name for each in self._nodes.items())
        answer, now = self._known.get(name), self._clock.monotonic()
        if answer is None or answer.asked != asked or now >= answer.at + _pause(answer, nodes):
            answer = await self._ask(name, asked, nodes, answer)
        if answer.switches is not None:
            desired = discovery.hyper_nodes_of(of_cluster(answer.switches, nodes), name)
            present = [each for each in self._hyper_nodes.items() if source_of(each) == name]
            await self._writer(name).apply(desired, present)
        return max(1.0, answer.at + _pause(answer, nodes) - self._clock.monotonic())

    def _writer(self, name: str) -> HyperNodeWriter:
        if name not in self._writers:
            again = partial(self._context.enqueue, _key(name), 1.0)
            self._writers[name] = HyperNodeWriter(self._client, again)
        return self._writers[name]

    async def _ask(
        self, name: str, asked: discovery.AskedSource, nodes: frozenset[str], before: _Known | None
    ) -> _Known:
        answer = _Known(asked, self._clock.monotonic(), nodes, before.switches if before else None)
        answer.problem = before.problem if before else ""
        self._known[name] = answer
        try:
            question = Question(asked.config, nodes, self._fetch, await self._credentials(asked))
            async with asyncio.timeout(_PATIENCE):
                switches = await self._find(name).discover(question)
            of_cluster(switches, nodes)
            answer.switches = switches
            self._tell(name, answer, "")
        except TimeoutError:
            self._tell(name, answer, f"the source does not answer within {_PATIENCE:g} s")
        except (SourceFailed, ApiError) as error:
            self._tell(name, answer, str(error))
        except Exception as error:
            # Of a package that is not ours.
            self._tell(name, answer, f"the source failed: {type(error).__name__}: {error}")
        return answer

    async def _credentials(self, asked: discovery.AskedSource) -> dict[str, str]:
        if asked.secret is None:
            return {}
        namespace, name = asked.secret
        ours = self._config_map[0]
        if namespace not in ("", ours):
            # Who may write this ConfigMap may not read all Secrets, nor send them anywhere.
            raise SourceFailed(f"credentials.secretRef.namespace: the Secret must be in namespace {ours}")
        try:
            secret = await self._client.get(SECRETS, name, ours)
        except NotFound as error:
            raise SourceFailed(f"credentials.secretRef: there is no Secret {ours}/{name}") from error
        try:
            return {key: base64.b64decode(text, validate=True).decode() for key, text in (secret.data or {}).items()}
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
