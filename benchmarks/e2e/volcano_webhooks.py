"""Volcano's webhooks for jobs and their PodGroups, as its default installation asks them.

Its other webhooks concern kinds that a measurement does not write. Their configurations have fixed names, in which the
webhook writes its authority: a cluster that has them already is not measured.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.e2e.admission import asked
from benchmarks.e2e.processes import Process, Usage, cpu_seconds, free_port
from unisono.api.groups.admission_registration import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from unisono.api.kinds import JOBS, POD_GROUPS
from unisono.apiserver.access.pki import KeyPair, issue_server, make_authority
from unisono.kube.http import HttpClient
from unisono.kube.transport import error_of

PROGRAM = "vc-webhook-manager"
_ADDRESS = "127.0.0.1"
_ASKED: tuple[tuple[str, Any, tuple[str, ...]], ...] = (
    ("/jobs/mutate", JOBS, ("CREATE",)),
    ("/jobs/validate", JOBS, ("CREATE", "UPDATE")),
    ("/podgroups/validate", POD_GROUPS, ("CREATE",)),
)
"""Path, kind and operations as in Volcano's Helm chart."""


class VolcanoWebhooks(Process):
    """Tells nothing of itself; what it costs the system knows."""

    made: tuple[str, ...] = ()
    """Paths of its configurations on the server."""

    def usage(self) -> Usage:
        """Its CPU time alone."""
        return Usage(cpu_seconds(self._child.pid), 0)


def configurations(namespace: str, port: int, authority: bytes) -> list[tuple[str, dict[str, Any]]]:
    """Collection and object of each configuration; asked is about ``namespace`` alone."""
    found = []
    for path, kind, operations in _ASKED:
        mutating = path.endswith("/mutate")
        registered = MUTATING_WEBHOOKS if mutating else VALIDATING_WEBHOOKS
        hook = {
            "name": f"{path.strip('/').replace('/', '-')}.volcano.sh",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {
                "url": f"https://{_ADDRESS}:{port}{path}",
                "caBundle": base64.b64encode(authority).decode(),
            },
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "rules": [
                {
                    "apiGroups": [kind.group],
                    "apiVersions": [kind.version],
                    "operations": list(operations),
                    "resources": [kind.plural],
                    "scope": "*",
                }
            ],
            "sideEffects": "NoneOnDryRun",
            "timeoutSeconds": 10,
        }
        body = {
            "apiVersion": registered.api_version,
            "kind": registered.kind,
            "metadata": {"name": f"volcano-admission-service{path.replace('/', '-')}"},
            "webhooks": [hook],
        }
        found.append((registered.path(), body))
    return found


async def started(admin: HttpClient, binaries: Path, kubeconfig: Path, folder: Path, namespace: str) -> VolcanoWebhooks:
    """Start the webhook, and answer its process once the server asks it.

    Raises:
        SystemExit: the cluster has an installation of Volcano.
        RuntimeError: the webhook does not work.
    """
    port, now = free_port(), datetime.now(UTC)
    authority = make_authority(now)
    pair = issue_server(authority, "volcano-webhook", [_ADDRESS], now, timedelta(days=1))
    words = [
        str(binaries / PROGRAM),
        f"--kubeconfig={kubeconfig}",
        f"--listen-address={_ADDRESS}",
        f"--port={port}",
        "--webhook-namespace=volcano-system",
        "--webhook-service-name=volcano-admission-service",
        f"--enabled-admission={','.join(path for path, _, _ in _ASKED)}",
        *_written(folder, authority, pair),
    ]
    made: list[str] = []
    process = None
    try:
        for path, body in configurations(namespace, port, authority.certificate_pem):
            status, headers, answer = await admin.request("POST", path, body=msgspec.json.encode(body))
            if status == 409:
                raise SystemExit(f"the cluster has {body['metadata']['name']} already: measure on one without Volcano")
            if status >= 300:
                raise error_of(status, headers, answer)
            made.append(f"{path}/{body['metadata']['name']}")
        process = VolcanoWebhooks("webhook", words, folder / f"{PROGRAM}.log")
        process.made = tuple(made)
        await asked(admin, namespace, process)
    except BaseException:
        await removed(admin, made)
        if process is not None:
            process.stop()
        raise
    return process


async def removed(admin: HttpClient, made: Sequence[str]) -> None:
    """Take configurations away again; without the webhook they would refuse jobs."""
    for path in made:
        await admin.request("DELETE", path)


def _written(folder: Path, authority: KeyPair, pair: KeyPair) -> list[str]:
    """Flags that name the files of the certificates."""
    flags = []
    for flag, name, data in (
        ("ca-cert-file", "ca.crt", authority.certificate_pem),
        ("tls-cert-file", "tls.crt", pair.certificate_pem),
        ("tls-private-key-file", "tls.key", pair.key_pem),
    ):
        path = folder / f"volcano-{name}"
        path.touch(mode=0o600)
        path.write_bytes(data)
        flags.append(f"--{flag}={path}")
    return flags
