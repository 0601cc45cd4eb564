"""ConfigMaps and Secrets that a pod refers to, gathered before its containers start."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from unisono.api.base import Object
from unisono.api.core import ConfigMap, Pod, Secret, Volume
from unisono.api.kind import Kind
from unisono.api.kinds import CONFIG_MAPS, SECRETS
from unisono.errors import AgentError, NotFound
from unisono.kube.client import Client
from unisono.kube.informer import Informer

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
        namespace, wanted = pod.metadata.namespace or "", references(pod)
        config_maps: dict[str, Mapping[str, bytes]] = {}
        secrets: dict[str, Mapping[str, bytes]] = {}
        size = 0
        for name in sorted(wanted.config_maps):
            if (found := await self._read(CONFIG_MAPS, self._config_maps, namespace, name)) is not None:
                config_maps[name] = config_map_data(found)
                size = _grown(size, config_maps[name])
        for name in sorted(wanted.secrets):
            if (secret := await self._read(SECRETS, self._secrets, namespace, name)) is not None:
                secrets[name] = secret_data(secret)
                size = _grown(size, secrets[name])
        return Gathered(config_maps, secrets)

    async def _read(self, kind: Kind[T], cache: Informer[T], namespace: str, name: str) -> T | None:
        # The streams of pods and of ConfigMaps are not ordered: a pod may be seen before what it refers to.
        if (found := cache.get(f"{namespace}/{name}")) is not None:
            return found
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
