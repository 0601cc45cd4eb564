"""Which API server to talk to and as whom: kubeconfig files and the service account of a pod.

Rules are kubectl's: ``$KUBECONFIG`` may name several files, the first that sets a value wins, missing files
are skipped, and relative paths inside a file are relative to that file.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from unisono.errors import ConfigError, system_reason

# What the official client knows; kubectl itself knows oidc alone by now.
_PROVIDERS = ("oidc", "gcp")
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A program that answers credentials (``client.authentication.k8s.io``).

    Attributes:
        command, args: the program; a command with a slash is relative to the kubeconfig's folder.
        env: variables added to the process environment.
        api_version: version of the ExecCredential that it speaks.
        provide_cluster: the program wants to know the cluster.
        install_hint: what to tell the user when the program is missing.
    """

    command: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    api_version: str
    provide_cluster: bool = False
    install_hint: str = ""


@dataclass(frozen=True, slots=True)
class AuthProvider:
    """A way to log in that is left to the official client (`kube.auth`).

    Attributes:
        name: ``oidc`` or ``gcp``.
        files: the kubeconfig files, in their order.
        context: which context of them.
    """

    name: str
    files: tuple[Path, ...]
    context: str


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """Address, trust and credentials of one API server.

    Attributes:
        server: URL with scheme, and path where the API lives below one.
        namespace: for commands that name none.
        ca: PEM of the authorities to trust, None for the system's.
        insecure: do not verify the server's certificate.
        tls_server_name: name to verify instead of the URL's host.
        client_certificate, client_key: PEM.
        token: bearer token; ``token_file`` is read again as it is rotated and wins over it.
        username, password: basic authentication.
        exec_plugin: program that answers credentials.
        auth_provider: a way to log in that the official client knows.
        impersonate: ``Impersonate-*`` headers.
        proxy: URL of an HTTP proxy.
        context: name of the kubeconfig context, empty when there is none.
        in_cluster: found as the service account of the pod that this process runs in.
    """

    server: str
    namespace: str = "default"
    ca: bytes | None = None
    insecure: bool = False
    tls_server_name: str | None = None
    client_certificate: bytes | None = field(default=None, repr=False)
    client_key: bytes | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    exec_plugin: ExecPlugin | None = None
    auth_provider: AuthProvider | None = None
    impersonate: tuple[tuple[str, str], ...] = ()
    proxy: str | None = None
    context: str = ""
    in_cluster: bool = False


def load(
    path: str | os.PathLike[str] | None = None,
    *,
    context: str | None = None,
    env: Mapping[str, str] = os.environ,
    home: Path | None = None,
) -> ClusterConfig:
    """The cluster that a kubeconfig names.

    Args:
        path: the file; None means ``$KUBECONFIG``, ``~/.kube/config``, or the service account inside a pod.
        context: name of the context; None means the current one.
        env: process environment.
        home: home directory, None for the user's.

    Raises:
        ConfigError: a file, context, cluster, user or value is missing or wrong; names file and key.
    """
    if path is not None:
        explicit = Path(path)
        if not explicit.is_file():
            raise ConfigError("there is no such kubeconfig file", file=str(explicit))
        files: Sequence[Path] = [explicit]
    else:
        named = [Path(part) for part in env.get("KUBECONFIG", "").split(os.pathsep) if part]
        files = [file for file in named or [(home or Path.home()) / ".kube" / "config"] if file.is_file()]
        if not files:
            if not named and env.get("KUBERNETES_SERVICE_HOST"):
                return in_cluster(env)
            searched = ", ".join(str(part) for part in named) or "~/.kube/config"
            raise ConfigError(f"no kubeconfig found (looked for {searched}): set KUBECONFIG or name a file")
    return _Merged([read_file(file) for file in files]).resolve(context)


def from_mapping(value: dict[str, Any], source: str, *, context: str | None = None) -> ClusterConfig:
    """The cluster that the content of a kubeconfig names, wherever that was kept.

    Args:
        value: the kubeconfig, decoded.
        source: what messages call it.
        context: name of the context; None means the current one.

    Raises:
        ConfigError: a context, cluster, user or value is missing or wrong.
    """
    return _Merged([KubeconfigFile(Path(source), value)]).resolve(context)


def in_cluster(env: Mapping[str, str] = os.environ, root: Path = _SERVICE_ACCOUNT) -> ClusterConfig:
    """The API server of the cluster that this process runs in, as the pod's service account.

    Raises:
        ConfigError: this is no pod, or its service account is not mounted.
    """
    host, port = env.get("KUBERNETES_SERVICE_HOST", ""), env.get("KUBERNETES_SERVICE_PORT", "443")
    token, ca = root / "token", root / "ca.crt"
    if not host:
        raise ConfigError("KUBERNETES_SERVICE_HOST is not set: this process does not run in a pod")
    if not token.is_file() or not ca.is_file():
        raise ConfigError("the service account is not mounted: set automountServiceAccountToken", file=str(root))
    namespace = root / "namespace"
    return ClusterConfig(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        namespace=namespace.read_text().strip() if namespace.is_file() else "default",
        ca=ca.read_bytes(),
        token_file=token,
        in_cluster=True,
    )


class _Merged:
    def __init__(self, files: Sequence[KubeconfigFile]) -> None:
        self._files = files

    def resolve(self, context: str | None) -> ClusterConfig:
        name = context or self._current()
        chosen = self._entry("contexts", "context", name, f"context {name!r}")
        cluster_name, user_name = chosen.text("cluster"), chosen.text("user")
        if not cluster_name:
            raise chosen.error("cluster", "is missing")
        cluster = self._entry("clusters", "cluster", cluster_name, f"cluster {cluster_name!r}")
        server = cluster.text("server")
        if server is None:
            raise cluster.error("server", "is missing")
        if not server.startswith(("https://", "http://")):
            raise cluster.error("server", f"must start with https:// or http://, not {server!r}")
        proxy = cluster.text("proxy-url")
        if proxy is not None and not proxy.startswith(("http://", "https://")):
            raise cluster.error("proxy-url", f"must start with http:// or https://, not {proxy!r}")
        user = self._entry("users", "user", user_name, f"user {user_name!r}") if user_name else None
        return ClusterConfig(
            server=server.rstrip("/"),
            namespace=chosen.text("namespace") or "default",
            ca=cluster.pem("certificate-authority"),
            insecure=cluster.flag("insecure-skip-tls-verify"),
            tls_server_name=cluster.text("tls-server-name"),
            proxy=proxy,
            context=name,
            auth_provider=self._auth_provider(user, name) if user else None,
            **(_credentials(user) if user else {}),
        )

    def _auth_provider(self, user: Entry, context: str) -> AuthProvider | None:
        value = user.value.get("auth-provider")
        if not value:
            return None
        name = value.get("name") if isinstance(value, dict) else None
        if name not in _PROVIDERS:
            raise user.error(
                "auth-provider", f"{name or 'without a name'} is supported by no client any more: use an exec plug-in"
            )
        return AuthProvider(name, tuple(file.path for file in self._files), context)

    def _current(self) -> str:
        for file in self._files:
            name = file.value.get("current-context")
            if isinstance(name, str) and name:
                return name
        if not any(file.value.get("contexts") for file in self._files):
            raise ConfigError(
                "this is no kubeconfig, or an empty one: it has no contexts",
                file=str(self._files[0].path),
                key="contexts",
            )
        raise ConfigError(
            "current-context is not set: choose one with 'kubectl config use-context' or name one",
            file=str(self._files[0].path),
            key="current-context",
        )

    def _entry(self, section: str, inner: str, name: str, title: str) -> Entry:
        names: list[str] = []
        for file in self._files:
            items = file.value.get(section) or []
            if not isinstance(items, list):
                raise ConfigError(f"{section} must be a list", file=str(file.path), key=section)
            for item in items:
                if not isinstance(item, dict) or not isinstance(item.get("name"), str):
                    raise ConfigError(f"every item of {section} needs a name", file=str(file.path), key=section)
                names.append(item["name"])
                if item["name"] == name:
                    value = item.get(inner) or {}
                    if not isinstance(value, dict):
                        raise ConfigError(f"{title} must be a mapping", file=str(file.path), key=section)
                    return Entry(file.path, f"{section}[{name}].{inner}", value)
        raise ConfigError(
            f"{title} does not exist; {section} has {', '.join(names) or 'none'}",
            file=str(self._files[0].path),
            key=section,
        )


def _credentials(user: Entry) -> dict[str, Any]:
    certificate, key = user.pem("client-certificate"), user.pem("client-key")
    if (certificate is None) != (key is None):
        raise user.error("client-key" if key is None else "client-certificate", "is missing")
    return {
        "client_certificate": certificate,
        "client_key": key,
        "token": user.text("token"),
        "token_file": user.path("tokenFile"),
        "username": user.text("username"),
        "password": user.text("password"),
        "exec_plugin": _exec_plugin(user),
        "impersonate": _impersonate(user),
    }


def _exec_plugin(user: Entry) -> ExecPlugin | None:
    value = user.value.get("exec")
    if not value:
        return None
    if not isinstance(value, dict):
        raise user.error("exec", "must be a mapping")
    entry = Entry(user.file, f"{user.where}.exec", value)
    command, version = entry.text("command"), entry.text("apiVersion")
    if command is None:
        raise entry.error("command", "is missing")
    if version not in ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"):
        raise entry.error("apiVersion", "must be client.authentication.k8s.io/v1 or v1beta1")
    if value.get("interactiveMode") == "Always":
        raise entry.error("interactiveMode", "is Always, but a component has no terminal to ask at")
    args, env = value.get("args") or [], value.get("env") or []
    if not isinstance(args, list) or not isinstance(env, list):
        raise entry.error("args", "and env must be lists")
    if not all(isinstance(item, dict) and "name" in item for item in env):
        raise entry.error("env", "must be a list of name and value")
    return ExecPlugin(
        command=str(user.file.parent / command) if "/" in command else command,
        args=tuple(str(arg) for arg in args),
        env={str(item["name"]): str(item.get("value", "")) for item in env},
        api_version=version,
        provide_cluster=entry.flag("provideClusterInfo"),
        install_hint=entry.text("installHint") or "",
    )


def _impersonate(user: Entry) -> tuple[tuple[str, str], ...]:
    name = user.text("as")
    groups = user.value.get("as-groups") or []
    if not isinstance(groups, list):
        raise user.error("as-groups", "must be a list")
    extra = user.value.get("as-user-extra") or {}
    if not isinstance(extra, dict) or not all(isinstance(values, list) for values in extra.values()):
        raise user.error("as-user-extra", "must map names to lists")
    uid = user.text("as-uid")
    if name is None:
        if groups or extra or uid:
            raise user.error("as", "is missing: who is impersonated needs a name")
        return ()
    return (
        ("Impersonate-User", name),
        *((("Impersonate-Uid", uid),) if uid else ()),
        *(("Impersonate-Group", str(group)) for group in groups),
        *(
            (f"Impersonate-Extra-{quote(str(key), safe='')}", str(one))
            for key, values in extra.items()
            for one in values
        ),
    )


@dataclass(frozen=True, slots=True)
class KubeconfigFile:
    """A file and what it says."""

    path: Path
    value: dict[str, Any]


def read_file(path: Path) -> KubeconfigFile:
    """Read one file; an empty one says nothing.

    Raises:
        ConfigError: it cannot be read, or is no mapping in YAML.
    """
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigError("this is no kubeconfig: it is no text in UTF-8", file=str(path)) from error
    except OSError as error:
        raise ConfigError(f"the kubeconfig cannot be read: {system_reason(error)}", file=str(path)) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "not YAML"
        raise ConfigError(
            f"the kubeconfig is not valid YAML: {problem}", file=str(path), line=mark.line + 1 if mark else 0
        ) from error
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise ConfigError("the kubeconfig must be a mapping", file=str(path))
    return KubeconfigFile(path, value)


@dataclass(frozen=True, slots=True)
class Entry:
    """One named cluster, user or context with the file it stands in."""

    file: Path
    where: str
    value: dict[str, Any]

    def text(self, key: str) -> str | None:
        """A text; None for none and for an empty one."""
        value = self.value.get(key)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise self.error(key, "must be a string")
        return value

    def flag(self, key: str) -> bool:
        """A boolean, false where it is not set."""
        value = self.value.get(key, False)
        if not isinstance(value, bool):
            raise self.error(key, "must be true or false")
        return value

    def path(self, key: str) -> Path | None:
        """A path, relative to the folder of the file."""
        text = self.text(key)
        return None if text is None else self.file.parent / text

    def pem(self, key: str) -> bytes | None:
        """``<key>-data`` decoded, else the contents of the file that ``<key>`` names."""
        data = self.text(f"{key}-data")
        if data is not None:
            try:
                return base64.b64decode(data, validate=True)
            except binascii.Error as error:
                raise self.error(f"{key}-data", "is not base64") from error
        path = self.path(key)
        if path is None:
            return None
        try:
            return path.read_bytes()
        except OSError as error:
            raise self.error(key, f"cannot be read: {error.strerror}: {path}") from error

    def error(self, key: str, problem: str) -> ConfigError:
        """What is wrong with a key, for the user."""
        name = f"{self.where}.{key}"
        return ConfigError(f"{name} {problem}", file=str(self.file), key=name)
