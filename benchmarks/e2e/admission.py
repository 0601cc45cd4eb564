"""What the default installation adds to definitions and components: policies, and a webhook that is asked.

Both have names of their own and look at the namespace of one measurement alone, so that an installation on the same
cluster is not touched. Objects in no namespace, such as queues, have no such bound; the measurement makes none.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from benchmarks.e2e.accounts import Accounts
from benchmarks.e2e.processes import Process, component, free_port
from unisono.api.kinds import JOBS
from unisono.install.admission import policies, webhooks
from unisono.install.workloads import InstallOptions
from unisono.kube.http import HttpClient

_TRIES = 600


def manifests(prefix: str, namespace: str, port: int) -> list[dict[str, Any]]:
    """Policies, bindings and webhook configurations for ``namespace``; the webhook listens on ``port`` here."""
    chosen = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    made = []
    for one in policies(webhook=True):
        one["metadata"] = one["metadata"] | {"name": f"{prefix}-{one['metadata']['name']}"}
        if one["kind"].endswith("Binding"):
            one["spec"] |= {"policyName": f"{prefix}-{one['spec']['policyName']}", "matchResources": chosen}
        made.append(one)
    for one in webhooks(InstallOptions(namespace=prefix)):
        one["metadata"] = one["metadata"] | {"name": prefix}
        for hook in one["webhooks"]:
            path = hook["clientConfig"].pop("service")["path"]
            hook["clientConfig"]["url"] = f"https://127.0.0.1:{port}{path}"
            hook.update(chosen)
        made.append(one)
    return made


async def installed(accounts: Accounts, kubeconfig: Path, folder: Path, namespace: str) -> Process:
    """Start a webhook, and answer its process once the server asks it and applies the policies."""
    port = free_port()
    system = accounts.namespace
    # The configurations come first: the webhook writes its authority into them.
    status, _, served = await accounts.admin.request("GET", "/apis/admissionregistration.k8s.io/v1")
    for manifest in manifests(system, namespace, port):
        # An embedded server has no policies: it holds the same rules itself.
        if "Policy" not in manifest["kind"] or (status == 200 and b"validatingadmissionpolicies" in served):
            await accounts.apply(manifest)
    arguments = (f"--serve=127.0.0.1:{port}", f"--service-namespace={system}", f"--configuration={system}")
    process = component("webhook", kubeconfig, folder, *arguments, "--server-name=127.0.0.1", elects=False)
    try:
        await process.ready()
        await asked(accounts.admin, namespace, process)
    except BaseException:
        process.stop()
        raise
    return process


async def asked(admin: HttpClient, namespace: str, webhook: Process) -> None:
    """Return when a job that only the webhook refuses is refused by it.

    Raises:
        RuntimeError: the webhook ended, or is not asked for a minute.
    """
    body = (
        b'{"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","metadata":{"generateName":"probe-"},"spec":{"queue":'
        b'"no-such-queue","tasks":[{"replicas":1,"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}}]}}'
    )
    for _try in range(_TRIES):
        status, _headers, answer = await admin.request(
            "POST", JOBS.path(namespace), body=body, params={"dryRun": "All"}
        )
        if 400 <= status < 500 and b"no-such-queue" in answer:
            return
        webhook.alive()
        await asyncio.sleep(0.1)
    raise RuntimeError(f"the server does not ask the webhook: {answer.decode()}")
