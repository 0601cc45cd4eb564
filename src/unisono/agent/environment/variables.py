"""The environment of a container: Kubernetes' ``$(NAME)`` expansion and values taken from elsewhere. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Protocol

from unisono.agent.environment.fields import field_value, resource_value
from unisono.api.core import Container, EnvFromReference, EnvVar, Pod
from unisono.errors import AgentError

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
    pod: Pod,
    container: Container,
    sources: Sources,
    *,
    pod_ip: str,
    host_ip: str,
    allocatable: Mapping[str, int],
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
