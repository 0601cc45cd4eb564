"""``unisono support-bundle``."""

from __future__ import annotations

import json
import platform
import re
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unisono import __version__
from unisono.api import kinds as k
from unisono.api.groups.admission_registration import WEBHOOK_KINDS
from unisono.api.keys import APP_PART_OF
from unisono.api.kind_families import DEPLOYMENTS
from unisono.cli.options import Where, output_option, run_async, where_options
from unisono.errors import ApiError
from unisono.kube.discovery import request_json

if TYPE_CHECKING:
    import tarfile

    from unisono.api.kind import Kind
    from unisono.kube.http import HttpClient

# What ``unisono support-bundle`` collects, and how it is cleaned of secrets.

# Objects and texts without what users keep secret (pure).
#
# Fields are kept by name: what is not known to be harmless is replaced, so that a field of tomorrow does not leak. What
# was replaced in an object is also replaced wherever it shows up in a text, such as a log or the message of an event.

REDACTED = "REDACTED"

# Texts that say what the scheduler works with; others, such as env values, commands and inline files, are replaced.
_HARMLESS_NAMES = """
    apiVersion kind name generateName namespace uid resourceVersion selfLink continue creationTimestamp
    deletionTimestamp lastTransitionTime lastProbeTime lastUpdateTime startTime completionTime finishedAt startedAt
    firstTimestamp lastTimestamp eventTime renewTime acquireTime holderIdentity leaseTransitions phase state type status
    reason message action event events queue parent schedulerName nodeName nominatedNodeName priorityClassName
    preemptionPolicy restartPolicy image fieldPath resource controller blockOwnerDeletion mode highestTierName tierName
    schedule timeZone concurrencyPolicy cleanPodPolicy successPolicy completionMode dequeueStrategy qosClass unit
    transitionID reportingComponent reportingInstance component host finalizers scope group version plural singular
    shortNames categories kinds listKind storedVersions operations apiGroups apiVersions resources failurePolicy
    matchPolicy sideEffects reinvocationPolicy admissionReviewVersions expression policyName validationActions protocol
    unschedulable providerID iteration targets replicaSpecs jobRetainPolicy containerID imageID podIP hostIP
"""
_HARMLESS = frozenset(_HARMLESS_NAMES.split())
# Everything below these is harmless: amounts, labels and what selects by them.
_HARMLESS_TREES_NAMES = """
    labels matchLabels nodeSelector taints tolerations matchExpressions matchFields affinity topologySpreadConstraints
    requests limits capacity allocatable capability deserved guarantee guaranteed allocated minResources hard used
    minTaskMember networkTopology nodeInfo ownerReferences involvedObject regarding min max default defaultRequest
    maxLimitRequestRatio names additionalPrinterColumns conditions
"""
_HARMLESS_TREES = frozenset(_HARMLESS_TREES_NAMES.split())
# Annotations of the field itself; those of users and of kubectl repeat what else is in the object.
_ANNOTATIONS = re.compile(r"^([a-z0-9.-]+\.)?(volcano\.sh|unisono\.io|scheduling\.k8s\.io)/")
# What a program said, or was given, at its end.
_OUTPUT = frozenset({"terminated"})
_DROPPED = frozenset({"managedFields", "openAPIV3Schema", "caBundle"})
# A shorter text, such as "1" or "true", says nothing, and would be replaced all over.
_SHORTEST = 6
_PATTERNS = (
    re.compile(r"-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|\Z)", re.DOTALL),
    re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*"),
    re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"),
    re.compile(r"(?i)(?<=bearer )[\w.~+/=-]+"),
    re.compile(
        r"""(?i)(?<![\w])((?:[\w-]*(?:password|passwd|secret|token|api[_-]?key|access[_-]?key|credential))["']?\s*[:=]\s*["']?)([^\s"',}]+)"""
    ),
)


class Redaction:
    """Replaces, and remembers what was replaced."""

    def __init__(self) -> None:
        self._hidden: set[str] = set()
        self._by_start: dict[str, list[str]] | None = None

    @property
    def hidden(self) -> int:
        """Number of different texts that were replaced in objects."""
        return len(self._hidden)

    def clean(self, value: Any, key: str = "", within: str = "") -> Any:
        """A JSON value without secrets; ``key`` is the field that holds it, ``within`` the one above that."""
        if isinstance(value, dict):
            if key == "annotations":
                return {name: self._annotation(name, text) for name, text in value.items()}
            if key in _HARMLESS_TREES:
                return {name: each for name, each in value.items() if name not in _DROPPED}
            return {name: self.clean(each, name, key) for name, each in value.items() if name not in _DROPPED}
        if isinstance(value, list):
            return value if key in _HARMLESS_TREES else [self.clean(each, key, within) for each in value]
        output = key == "message" and within in _OUTPUT
        if not isinstance(value, str) or (key in _HARMLESS and not output):
            return value
        return self.hide(value)

    def _annotation(self, name: str, text: Any) -> Any:
        return text if _ANNOTATIONS.match(name) else self.hide(str(text))

    def hide(self, text: str) -> str:
        """Replace a text here and, from now on, wherever else it shows up."""
        self._by_start = None
        if not text:
            return text
        # A text of several lines, such as a script, may be repeated in parts.
        for part in (text, *text.splitlines()):
            if len(part.strip()) >= _SHORTEST:
                self._hidden |= {part.strip(), json.dumps(part.strip())[1:-1]}
        return REDACTED

    def scrub(self, text: str) -> str:
        """A text without anything that was hidden, and without what looks like a credential."""
        for pattern in _PATTERNS:
            text = pattern.sub(lambda match: f"{match[1]}{REDACTED}" if match.re.groups else REDACTED, text)
        starts = self._starts()
        if not starts:
            return text
        made: list[str] = []
        at = done = 0
        while at <= len(text) - _SHORTEST:
            secret = next(
                (each for each in starts.get(text[at : at + _SHORTEST], ()) if text.startswith(each, at)), None
            )
            if secret is None or secret == REDACTED:
                at += 1
                continue
            made += (text[done:at], REDACTED)
            at = done = at + len(secret)
        return "".join((*made, text[done:]))

    def _starts(self) -> Mapping[str, list[str]]:
        """What was hidden by its first characters, longest first: one pass over a text finds all."""
        if self._by_start is None:
            self._by_start = {}
            for each in sorted(self._hidden, key=len, reverse=True):
                self._by_start.setdefault(each[:_SHORTEST], []).append(each)
        return self._by_start


def lines_of(redaction: Redaction, items: Iterable[Mapping[str, Any]]) -> str:
    """Objects as one JSON object a line."""
    return "".join(json.dumps(redaction.clean(dict(item)), sort_keys=True) + "\n" for item in items)


# Reads what a report needs: objects page by page, logs, metrics and the configuration of one control plane.

# Never Secrets, nor ConfigMaps of users.
KINDS: tuple[Kind[Any], ...] = (
    k.NODES,
    k.PODS,
    *k.CUSTOM_KINDS,
    k.PRIORITY_CLASSES,
    k.RESOURCE_QUOTAS,
    k.LIMIT_RANGES,
    k.POD_DISRUPTION_BUDGETS,
    k.PERSISTENT_VOLUME_CLAIMS,
    k.RESOURCE_CLAIMS,
    k.LEASES,
    k.EVENTS,
    k.CUSTOM_RESOURCE_DEFINITIONS,
    *WEBHOOK_KINDS,
)
CONFIG = "unisono-scheduler"
_PAGE = 500
_TAIL_LINES = 20_000
_TAIL_BYTES = 8 * 1024 * 1024


class Collector:
    """One bundle in the making; what cannot be read is told in ``problems`` and leaves the rest as it is."""

    def __init__(self, client: HttpClient, namespace: str, redaction: Redaction) -> None:
        self._client, self._namespace, self._redaction = client, namespace, redaction
        self.problems: list[str] = []

    async def files(self, home: Path | None) -> AsyncIterator[tuple[str, str]]:
        """Names and texts, not yet scrubbed: objects first, since they tell what is to be hidden elsewhere.

        Args:
            home: data directory of a control plane of this machine, whose log is there; None for a cluster.
        """
        yield "about.json", json.dumps(await self._about(), indent=2) + "\n"
        for kind in KINDS:
            text = await self._objects(kind)
            if text:
                yield f"objects/{kind.plural}{'.' + kind.group if kind.group else ''}.jsonl", text
        async for name, text in self._components():
            yield name, text
        if home is not None:
            for name, text in _logs(home):
                yield name, text
            yield "metrics/control-plane.txt", await self._text("/metrics")

    async def _about(self) -> dict[str, Any]:
        try:
            server = await request_json(self._client, "GET", "/version")
        except ApiError as error:
            server = {"error": error.message}
        return {
            "unisono": __version__,
            "python": sys.version,
            "platform": platform.platform(),
            "server": server,
            "namespace": self._namespace,
        }

    async def _objects(self, kind: Kind[Any]) -> str:
        """All objects of a kind, redacted; empty where the server does not serve it."""
        made: list[str] = []
        params = {"limit": str(_PAGE)}
        while True:
            try:
                page = await request_json(self._client, "GET", kind.path(), params=params)
            except ApiError as error:
                if error.code != 404:
                    self.problems.append(f"{kind.resource}: {error.message}")
                return "".join(made)
            made.append(lines_of(self._redaction, page.get("items") or ()))
            params["continue"] = (page.get("metadata") or {}).get("continue") or ""
            if not params["continue"]:
                return "".join(made)

    async def _components(self) -> AsyncIterator[tuple[str, str]]:
        """Deployments, configuration, logs and metrics of an installation; nothing where there is none."""
        for kind in (DEPLOYMENTS, k.CONFIG_MAPS, k.PODS):
            path = kind.path(self._namespace)
            chosen = {"labelSelector": f"{APP_PART_OF}=unisono"}
            try:
                items = (await request_json(self._client, "GET", path, params=chosen)).get("items") or []
            except ApiError as error:
                if error.code != 404:
                    self.problems.append(f"{kind.resource} of {self._namespace}: {error.message}")
                continue
            if kind is DEPLOYMENTS and items:
                yield "objects/deployments.apps.jsonl", lines_of(self._redaction, items)
            for item in items:
                name = item["metadata"]["name"]
                if kind is k.CONFIG_MAPS and name == CONFIG:
                    for file, text in (item.get("data") or {}).items():
                        yield f"configuration/{file}", text
                elif kind is k.PODS:
                    async for file, text in self._pod(path, item):
                        yield file, text

    async def _pod(self, path: str, pod: dict[str, Any]) -> AsyncIterator[tuple[str, str]]:
        name = pod["metadata"]["name"]
        for container in (pod.get("spec") or {}).get("containers") or ():
            for past in ("false", "true"):
                params = {"container": container["name"], "tailLines": str(_TAIL_LINES), "previous": past}
                if text := await self._text(f"{path}/{name}/log", params, quiet=past == "true"):
                    yield f"logs/{name}{'.previous' if past == 'true' else ''}.log", text
            for port in container.get("ports") or ():
                if port.get("name") == "metrics":
                    yield (
                        f"metrics/{name}.txt",
                        await self._text(f"{path}/{name}:{port['containerPort']}/proxy/metrics"),
                    )

    async def _text(self, path: str, params: dict[str, str] | None = None, *, quiet: bool = False) -> str:
        status, _, body = await self._client.request("GET", path, params=params or {}, accept="*/*")
        if status >= 400:
            if not quiet:
                self.problems.append(f"{path}: HTTP {status}")
            return ""
        return body.decode(errors="replace")


def _logs(home: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(home.glob("unisono.log*")):
        yield f"logs/{path.name}", _tail(path)


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL_BYTES))
        return file.read().decode(errors="replace")


@click.command("support-bundle")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), default=Path("unisono-support.tar.gz"))
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@output_option("text", "json")
@where_options
def command(file: Path, force: bool, output: str, where: Where) -> None:
    """Collect state, configuration, logs and metrics for a report into FILE, without secrets.

    --namespace is where the components of an installation run (default: unisono-system). Secrets are not read. Values
    of environment variables, commands, arguments, inline files and unknown annotations are replaced by REDACTED, also
    where logs and messages repeat them. Names and labels stay: look into the file before you hand it on.
    """
    from unisono.cli.printing import print_json
    from unisono.errors import UnisonoError

    if file.exists() and not force:
        raise UnisonoError(f"{file} exists: choose another file, or replace it with --force.")
    if not file.absolute().parent.is_dir():
        raise UnisonoError(f"{file.absolute().parent} is not a directory: make it, or choose another file.")
    redaction = Redaction()
    names, problems = run_async(_collect(where, file, redaction))
    if output == "json":
        print_json({"path": str(file), "files": names, "redacted": redaction.hidden, "problems": problems})
        return
    click.echo(f"Wrote {len(names)} files to {file}.")
    for problem in problems:
        click.echo(f"  not read: {problem}")


async def _collect(where: Where, file: Path, redaction: Redaction) -> tuple[list[str], list[str]]:
    """Read everything into a folder first: what is hidden in the last object is hidden in the first file, too."""
    import tempfile

    from unisono.cli.connection import connect
    from unisono.install.workloads import NAMESPACE
    from unisono.standalone.paths import DataDir

    data = DataDir.at(where.data_dir)
    local = not (where.kubeconfig or where.kubectl) and data.kubeconfig.exists()
    with tempfile.TemporaryDirectory(prefix="unisono-support-") as folder:
        read: dict[str, Path] = {}

        def keep(name: str, text: str) -> None:
            path = read[name] = Path(folder, str(len(read)))
            path.write_text(text, encoding="utf-8", errors="replace")

        async with connect(where) as client:
            collector = Collector(client, where.namespace or NAMESPACE, redaction)
            async for name, text in collector.files(data.root if local else None):
                click.echo(f"{name} ({len(text):,} characters)", err=True)
                keep(name, text)
        names = list(read)
        keep("problems.txt", "".join(f"{each}\n" for each in collector.problems))
        _pack(read, file, redaction)
    return names, [redaction.scrub(each) for each in collector.problems]


def _pack(read: dict[str, Path], file: Path, redaction: Redaction) -> None:
    """Scrub each file and put it into the archive, which appears when it is whole and is its owner's alone."""
    import os
    import tarfile

    temporary = file.with_name(f".{file.name}.part")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as target, tarfile.open(fileobj=target, mode="w:gz") as archive:
            for name, path in read.items():
                path.write_text(redaction.scrub(path.read_text(encoding="utf-8")), encoding="utf-8")
                archive.add(path, f"unisono-support/{name}", filter=_anonymous)
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Who collected does not matter."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
