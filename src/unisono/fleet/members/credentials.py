"""Kubeconfigs of members, as Secrets hold them: what a hub accepts, and why it refuses the rest (pure).

A kubeconfig comes from users who may write Secrets, and is used by the hub, which has more rights. It must therefore
neither start a program, nor name files of the hub, nor trust any certificate.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import yaml

from unisono.errors import ConfigError
from unisono.kube.kubeconfig import ClusterConfig, from_mapping

KEYS = ("value", "kubeconfig", "config")
"""Entries of a Secret that are looked for where none is named."""
MOST_BYTES = 1024 * 1024

_TOKEN = "put a token or a client certificate of a service account into it ('unisono fleet join' makes one)"  # noqa: S105  # nosec B105 # advice
_FLATTEN = "('kubectl config view --flatten --raw' writes it)"
_USER_REFUSALS = {
    "exec": f"starts a program: {_TOKEN}",
    "auth-provider": f"uses a log-in plug-in: {_TOKEN}",
    "tokenFile": "names a file: use 'token' with its content",
    "client-certificate": f"names a file: use 'client-certificate-data' {_FLATTEN}",
    "client-key": f"names a file: use 'client-key-data' {_FLATTEN}",
    "password": f"uses a password: {_TOKEN}",
    "username": f"uses a password: {_TOKEN}",
}
_CLUSTER_REFUSALS = {
    "certificate-authority": f"names a file: use 'certificate-authority-data' {_FLATTEN}",
    "insecure-skip-tls-verify": "trusts any certificate: use 'certificate-authority-data'",
}


def member_config(data: Mapping[str, str], key: str | None, source: str) -> ClusterConfig:
    """Address and credentials of a member.

    Args:
        data: the Secret's ``data``: entry to base64.
        key: entry that holds the kubeconfig; None looks for it.
        source: what messages call the Secret.

    Raises:
        ConfigError: there is no kubeconfig, it is broken, or a hub must not use it; says what to do instead.

    """
    value = _decoded(_entry(data, key, source), source)
    refused = refusals(value)
    if refused:
        raise ConfigError(f"the hub refuses this kubeconfig: {'; '.join(refused)}", file=source)
    config = from_mapping(value, source)
    if config.server.startswith("http://"):
        raise ConfigError("the hub refuses this kubeconfig: its server must be https://", file=source)
    if not config.token and config.client_certificate is None:
        raise ConfigError(f"this kubeconfig has no credentials: {_TOKEN}", file=source)
    return config


def refusals(kubeconfig: Mapping[str, Any]) -> list[str]:
    """Why a hub must not use a kubeconfig, one sentence for each entry; empty when it may."""
    return [
        *_refused(kubeconfig, "users", "user", _USER_REFUSALS),
        *_refused(kubeconfig, "clusters", "cluster", _CLUSTER_REFUSALS),
    ]


def _refused(kubeconfig: Mapping[str, Any], section: str, inner: str, rules: Mapping[str, str]) -> list[str]:
    found = []
    entries = kubeconfig.get(section)
    for entry in entries if isinstance(entries, list) else ():
        named: dict[str, Any] = entry if isinstance(entry, dict) else {}
        given = named.get(inner)
        body: dict[str, Any] = given if isinstance(given, dict) else {}
        for name, why in rules.items():
            if body.get(name):
                found.append(f"{section}[{named.get('name', '')}].{name} {why}")
    return found


def _entry(data: Mapping[str, str], key: str | None, source: str) -> str:
    if key:
        if key not in data:
            have = ", ".join(sorted(data)) or "none"
            raise ConfigError(f"the Secret has no entry {key}; it has {have}", file=source)
        return data[key]
    for known in KEYS:
        if known in data:
            return data[known]
    if len(data) == 1:
        return next(iter(data.values()))
    raise ConfigError(
        f"the Secret has no entry value, kubeconfig or config: name one of {', '.join(sorted(data)) or 'its entries'} "
        "in spec.kubeconfig.key",
        file=source,
    )


def _decoded(text: str, source: str) -> dict[str, Any]:
    if len(text) > MOST_BYTES * 4 // 3:
        raise ConfigError(f"the kubeconfig is larger than {MOST_BYTES} bytes", file=source)
    try:
        value = yaml.safe_load(base64.b64decode(text, validate=True).decode())
    except (binascii.Error, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise ConfigError("this is no kubeconfig: it is no YAML in UTF-8", file=source) from error
    if not isinstance(value, dict):
        raise ConfigError("this is no kubeconfig: it is no mapping", file=source)
    return value
