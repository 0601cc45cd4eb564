"""Values that containers get from their pods, from ConfigMaps and from Secrets."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from unisono.api.base import Object
from unisono.api.core import ConfigMap, Container, EnvFromReference, EnvVar, Pod, ResourceFieldSelector, Secret, Volume
from unisono.api.kind import Kind
from unisono.api.kinds import CONFIG_MAPS, SECRETS
from unisono.api.quantity import parse_quantity
from unisono.api.resources import is_bytes, resource_list
from unisono.errors import AgentError, NotFound
from unisono.kube.client import Client
from unisono.kube.informer import Informer

# Values of the pod's own fields and resources, for variables and downward API files. Pure.

_KEYED = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
_MILLI = 1000


def field_value(pod: Pod, path: str, *, pod_ip: str, host_ip: str) -> str:
    """The value of a field that ``fieldRef`` may name.

    Raises:
        AgentError: this field cannot be referred to.
    """
    meta, spec = pod.metadata, pod.spec
    values = {
        "metadata.name": meta.name,
        "metadata.namespace": meta.namespace or "",
        "metadata.uid": meta.uid or "",
        "spec.nodeName": spec.node_name or "",
        "spec.serviceAccountName": spec.service_account_name or "default",
        "status.podIP": pod_ip,
        "status.podIPs": pod_ip,
        "status.hostIP": host_ip,
        "status.hostIPs": host_ip,
    }
    if path in values:
        return values[path]
    if match := _KEYED.fullmatch(path):
        held = meta.labels if match[1] == "labels" else meta.annotations
        return (held or {}).get(match[2], "")
    if path in ("metadata.labels", "metadata.annotations"):
        held = meta.labels if path.endswith("labels") else meta.annotations
        return "\n".join(f'{key}="{_escape(value)}"' for key, value in sorted((held or {}).items()))
    raise AgentError(f"The field {path} cannot be referred to.")


def resource_value(
    pod: Pod, selector: ResourceFieldSelector, own_container: str, allocatable: Mapping[str, int]
) -> str:
    """``limits.cpu`` and the like, divided and rounded up.

    Args:
        pod: the pod.
        selector: what is asked for.
        own_container: the container that is meant when the selector names none.
        allocatable: the node's resources in engine units; stands for a limit that is not set.

    Raises:
        AgentError: there is no such container, or the resource is not of the form ``limits.NAME`` or ``requests.NAME``.
    """
    name = selector.container_name or own_container
    container = _container(pod, name)
    kind, _, resource = selector.resource.partition(".")
    if kind not in ("limits", "requests") or not resource:
        raise AgentError(f"The resource {selector.resource} cannot be referred to: write limits.NAME or requests.NAME.")
    limits = resource_list(container.resources.limits or {})
    amount = limits.get(resource)
    if kind == "requests":
        amount = resource_list(container.resources.requests or {}).get(resource, amount or 0)
    elif amount is None:
        amount = allocatable.get(resource, 0)
    divisor = parse_quantity(selector.divisor or "1") or parse_quantity("1")
    # Whole units of the resource are what the divisor divides; CPU is kept in thousandths.
    unit = 1 if is_bytes(resource) or resource == "pods" else _MILLI
    scaled = parse_quantity(str(amount)) / (divisor * unit)
    return str(-int(-scaled // 1))


def _container(pod: Pod, name: str) -> Container:
    containers: list[Container] = [*(pod.spec.containers or ()), *(pod.spec.init_containers or ())]
    for container in containers:
        if container.name == name:
            return container
    raise AgentError(f"The pod has no container {name} whose resources could be referred to.")


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


# ConfigMaps and Secrets that a pod refers to, gathered before its containers start.

T = TypeVar("T", bound=Object)

MOST_BYTES: Final = 64 * 1024 * 1024
"""Size of all ConfigMaps and Secrets that one pod may refer to, and of what the agent writes into its volumes."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """Contents by object name; objects that do not exist are left out."""

    config_maps: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    secrets: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)

    def config_map(self, name: str) -> Mapping[str, bytes] | None:
        """Keys of a ConfigMap, None when it does not exist."""
        return self.config_maps.get(name)

    def secret(self, name: str) -> Mapping[str, bytes] | None:
        """Keys of a Secret, None when it does not exist."""
        return self.secrets.get(name)


@dataclass(frozen=True, slots=True)
class References:
    """Names of the objects that a pod refers to."""

    config_maps: frozenset[str]
    secrets: frozenset[str]


def references(pod: Pod) -> References:
    """Every ConfigMap and Secret in variables and volumes of a pod."""
    config_maps: set[str] = set()
    secrets: set[str] = set()
    for container in (*(pod.spec.init_containers or ()), *(pod.spec.containers or ())):
        for source in container.env_from or ():
            config_maps.update([source.config_map_ref.name] if source.config_map_ref else ())
            secrets.update([source.secret_ref.name] if source.secret_ref else ())
        for variable in container.env or ():
            if (origin := variable.value_from) is not None:
                config_maps.update([origin.config_map_key_ref.name] if origin.config_map_key_ref else ())
                secrets.update([origin.secret_key_ref.name] if origin.secret_key_ref else ())
    for volume in pod.spec.volumes or ():
        for kind, name in _of_volume(volume):
            (config_maps if kind is CONFIG_MAPS else secrets).add(name)
    return References(frozenset(config_maps), frozenset(secrets))


def _of_volume(volume: Volume) -> Iterator[tuple[object, str]]:
    if volume.config_map is not None:
        yield CONFIG_MAPS, volume.config_map.name or ""
    if volume.secret is not None:
        yield SECRETS, volume.secret.secret_name or ""
    for projection in (volume.projected.sources or ()) if volume.projected else ():
        if projection.config_map is not None:
            yield CONFIG_MAPS, projection.config_map.name or ""
        if projection.secret is not None:
            yield SECRETS, projection.secret.name or ""


class ObjectSource:
    """Reads ConfigMaps and Secrets from caches, and from the API what they do not know yet."""

    def __init__(self, client: Client, config_maps: Informer[ConfigMap], secrets: Informer[Secret]) -> None:
        self._client, self._config_maps, self._secrets = client, config_maps, secrets

    async def gather(self, pod: Pod) -> Gathered:
        """Everything that the pod refers to.

        Raises:
            AgentError: it is more than a pod may refer to.
        """
        namespace, needed = pod.metadata.namespace or "", references(pod)
        config_maps: dict[str, Mapping[str, bytes]] = {}
        secrets: dict[str, Mapping[str, bytes]] = {}
        size = 0
        for name in sorted(needed.config_maps):
            if (config_map := await self._read(CONFIG_MAPS, self._config_maps, namespace, name)) is not None:
                config_maps[name] = config_map_data(config_map)
                size = _grown(size, config_maps[name])
        for name in sorted(needed.secrets):
            if (secret := await self._read(SECRETS, self._secrets, namespace, name)) is not None:
                secrets[name] = secret_data(secret)
                size = _grown(size, secrets[name])
        return Gathered(config_maps, secrets)

    async def _read(self, kind: Kind[T], cache: Informer[T], namespace: str, name: str) -> T | None:
        # The streams of pods and of ConfigMaps are not ordered: a pod may be seen before what it refers to.
        if (cached := cache.get(f"{namespace}/{name}")) is not None:
            return cached
        try:
            return await self._client.get(kind, name, namespace)
        except NotFound:
            return None


def _grown(size: int, data: Mapping[str, bytes]) -> int:
    size += sum(map(len, data.values()))
    if size > MOST_BYTES:
        raise AgentError(
            f"The pod refers to ConfigMaps and Secrets of more than {MOST_BYTES >> 20} MiB: use fewer, or a claim."
        )
    return size


def config_map_data(config_map: ConfigMap) -> dict[str, bytes]:
    """Contents of a ConfigMap by key."""
    texts = {key: value.encode() for key, value in (config_map.data or {}).items()}
    return texts | {key: _decode(value) for key, value in (config_map.binary_data or {}).items()}


def secret_data(secret: Secret) -> dict[str, bytes]:
    """Contents of a Secret by key."""
    return {key: _decode(value) for key, value in (secret.data or {}).items()}


def _decode(value: str) -> bytes:
    try:
        return base64.b64decode(value)
    except binascii.Error:
        return value.encode()


# The environment of a container: Kubernetes' ``$(NAME)`` expansion and values taken from elsewhere. Pure.

LONGEST: Final = 128 * 1024
"""Bytes of one variable or argument that the kernel hands to a program (``MAX_ARG_STRLEN``)."""
_MOST: Final = 6 * 1024 * 1024
"""Bytes of all of them that it hands over at most (three quarters of ``_STK_LIM``)."""

_NAME = re.compile(r"[A-Za-z_.-][A-Za-z0-9_.-]*")


class Sources(Protocol):
    """Where variables may come from; both answer None when there is no such object."""

    def config_map(self, name: str) -> Mapping[str, bytes] | None:
        """Contents of a ConfigMap of the pod's namespace by key."""
        ...

    def secret(self, name: str) -> Mapping[str, bytes] | None:
        """Contents of a Secret of the pod's namespace by key."""
        ...


class MissingSource(AgentError):
    """A ConfigMap, a Secret or a key of one is not there yet; the container waits for it."""


def expand(text: str, known: Mapping[str, str]) -> str:
    """Replace ``$(NAME)`` by its value; ``$$`` stands for ``$``; unknown names stay as they are.

    Follows the third_party/forked/golang/expansion rules of Kubernetes: ``$$(X)`` gives ``$(X)``, an unclosed
    ``$(`` and a ``$`` before any other character are kept.

    Raises:
        AgentError: the result is longer than a program can be given: variables that name each other twice double with
            each step.
    """
    if len(text) > 2 * LONGEST:  # escapes halve it at most
        return _bounded(text)
    out, index, size, last = [], 0, 0, text.rfind(")")
    while (dollar := text.find("$", index)) >= 0 and dollar + 1 < len(text):
        out.append(text[index:dollar])
        following = text[dollar + 1]
        if following == "$":
            out.append("$")
            index = dollar + 2
        elif following == "(" and dollar + 2 <= last:
            close = text.index(")", dollar + 2)
            name = text[dollar + 2 : close]
            out.append(known.get(name, f"$({name})"))
            size += len(out[-1])
            if size > LONGEST:
                break
            index = close + 1
        else:
            out.append("$")
            index = dollar + 1
    return _bounded("".join(out) + text[index:])


def _bounded(text: str) -> str:
    if len(text) > LONGEST:
        raise AgentError(
            f"A variable or argument is longer than {LONGEST >> 10} KiB once its references are replaced, which "
            "is more than the kernel hands to a program: pass it in a file."
        )
    return text


def container_environment(
    pod: Pod, container: Container, sources: Sources, *, pod_ip: str, host_ip: str, allocatable: Mapping[str, int]
) -> dict[str, str]:
    """Variables that the manifest gives a container, expanded in their order.

    Args:
        pod: the pod.
        container: one of its containers.
        sources: ConfigMaps and Secrets.
        pod_ip: for ``status.podIP``, which the API may not show yet.
        host_ip: for ``status.hostIP``.
        allocatable: the node's resources in engine units, for limits that are not set.

    Raises:
        MissingSource: an object or key that is not optional does not exist.
        AgentError: a reference that this runtime does not know.
    """
    result: dict[str, str] = {}
    size = 0
    for source in container.env_from or ():
        prefix = source.prefix or ""
        if (chosen := source.config_map_ref) is not None:
            result |= _all_keys(sources.config_map(chosen.name), "configmap", chosen, prefix)
        if (chosen := source.secret_ref) is not None:
            result |= _all_keys(sources.secret(chosen.name), "secret", chosen, prefix)
    for variable in container.env or ():
        value = _value(pod, container, variable, sources, result, pod_ip, host_ip, allocatable)
        if value is not None:
            result[variable.name] = value
            size += len(value)
        if size > _MOST:
            raise AgentError(
                f"The variables of container {container.name} are larger than {_MOST >> 20} MiB together, "
                "which is more than the kernel hands to a program: pass them in files."
            )
    return result


def _all_keys(data: Mapping[str, bytes] | None, kind: str, reference: EnvFromReference, prefix: str) -> dict[str, str]:
    _require(data is not None or bool(reference.optional), f'{kind} "{reference.name}" not found')
    named = ((prefix + key, value) for key, value in (data or {}).items())
    return {name: _text(value) for name, value in named if _NAME.fullmatch(name)}


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def _value(
    pod: Pod,
    container: Container,
    variable: EnvVar,
    sources: Sources,
    known: Mapping[str, str],
    pod_ip: str,
    host_ip: str,
    allocatable: Mapping[str, int],
) -> str | None:
    source = variable.value_from
    if source is None:
        return expand(variable.value or "", known)
    if source.field_ref is not None:
        return field_value(pod, source.field_ref.field_path, pod_ip=pod_ip, host_ip=host_ip)
    if source.resource_field_ref is not None:
        return resource_value(pod, source.resource_field_ref, container.name, allocatable)
    if (selector := source.config_map_key_ref) is not None:
        texts = sources.config_map(selector.name)
        if texts is not None and selector.key in texts:
            return _text(texts[selector.key])
        _require(bool(selector.optional), f'couldn\'t find key {selector.key} in ConfigMap "{selector.name}"')
        return None
    if (secret := source.secret_key_ref) is not None:
        data = sources.secret(secret.name)
        if data is not None and secret.key in data:
            return _text(data[secret.key])
        _require(bool(secret.optional), f'couldn\'t find key {secret.key} in Secret "{secret.name}"')
        return None
    raise AgentError(f"The source of the environment variable {variable.name} is not supported by this runtime.")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise MissingSource(message)


def command_line(container: Container, environment: Mapping[str, str]) -> list[str]:
    """The expanded command and arguments.

    Raises:
        AgentError: the container names no command: the image, which would name one, is not used here.
    """
    if not container.command:
        raise AgentError(
            f"Container {container.name} has no command, and this runtime does not read images: "
            f"give the container a command."
        )
    return [expand(part, environment) for part in (*container.command, *(container.args or ()))]
