"""Who hands the configuration of Ray Serve to a cluster: a pod that ends well when all applications run."""

from __future__ import annotations

import msgspec

from unisono.api.base import ObjectMeta
from unisono.api.core import Container, EnvVar, Pod, PodSpec, ResourceRequirements
from unisono.api.groups.ray import AppStatus, RayCluster, RayService
from unisono.api.keys import GROUP_NAME, TASK_SPEC
from unisono.api.kind_families import RAY_SERVICES
from unisono.api.yaml import load_all
from unisono.controllers.owners import owned_by
from unisono.controllers.texts import json_object
from unisono.controllers.training.ray import labels
from unisono.errors import ConfigError

DEPLOYING, DEPLOY_FAILED = "DEPLOYING", "DEPLOY_FAILED"
_NAME = "ray-serve-deployer"
# Kubernetes keeps 4096 bytes of a container's last words; a message of Ray Serve may be a whole traceback.
_SCRIPT = """\
import json, os, sys, time, urllib.request
import yaml
at = os.environ["RAY_DASHBOARD_ADDRESS"] + "/api/serve/applications/"
config = yaml.safe_load(os.environ["SERVE_CONFIG"]) or {}
wanted = [each.get("name", "default") for each in config.get("applications", [])]
def ask(method, value=None):
    data = None if value is None else json.dumps(value).encode()
    request = urllib.request.Request(at, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or b"{}")
def short(state, length):
    return {"status": str(state.get("status", "")), "message": str(state.get("message") or "")[-length:]}
def last_words(apps):
    for length in (500, 100, 0):
        told = {n: {**short(a, length), "serveDeploymentStatuses": {
            d: short(s, length) for d, s in (a.get("deployments") or {}).items()}} for n, a in apps.items()}
        text = json.dumps(told)
        if len(text) < 4000:
            break
    with open("/dev/termination-log", "w") as file:
        file.write(text)
try:
    ask("PUT", config)
except urllib.error.HTTPError as error:
    told = error.read().decode(errors="replace")
    print(told, file=sys.stderr)
    last_words({name: {"status": "DEPLOY_FAILED", "message": told} for name in wanted})
    sys.exit(1)
before = None
while True:
    found = ask("GET").get("applications", {})
    apps = {name: found.get(name) or {"status": "NOT_STARTED"} for name in wanted}
    states = {name: app["status"] for name, app in apps.items()}
    if states != before:
        print(json.dumps(states), flush=True)
        before = states
    if all(state == "RUNNING" for state in states.values()):
        last_words(apps)
        sys.exit(0)
    if any(state in ("DEPLOY_FAILED", "UNHEALTHY") for state in states.values()):
        last_words(apps)
        sys.exit(1)
    time.sleep(1)
"""


def deployer_name(cluster: RayCluster, head: Pod, config: str) -> str:
    """Name of the pod: another one for another configuration, and for a new head, which knows nothing."""
    starts = sum(each.restart_count or 0 for each in head.status.container_statuses or ())
    name = cluster.metadata.name
    return labels.pod_name(f"{name}-serve", cluster.metadata.uid, head.metadata.uid, starts, config)


def deployer_pod(service: RayService, cluster: RayCluster, name: str) -> Pod:
    """The pod that deploys the service's applications on a cluster; it tries again until they run."""
    meta, at = service.metadata, labels.head_address(cluster.metadata.name, service.metadata.namespace or "")
    heads = cluster.spec.head_group_spec.template.spec
    main = (heads.containers or [Container()])[0]
    amounts: dict[str, str | int | float] = {"cpu": "200m", "memory": "256Mi"}
    container = Container(
        name=_NAME,
        image=main.image,
        image_pull_policy=main.image_pull_policy,
        command=["/bin/bash", "-c", 'exec "$(command -v python || command -v python3)" -c "$SERVE_DEPLOYER"'],
        env=[
            EnvVar(name="RAY_DASHBOARD_ADDRESS", value=f"http://{at}:{labels.DASHBOARD_PORT}"),
            EnvVar(name="SERVE_CONFIG", value=_verbatim(service.spec.serve_config_v2 or "")),
            EnvVar(name="SERVE_DEPLOYER", value=_verbatim(_SCRIPT)),
        ],
        resources=ResourceRequirements(limits={"cpu": "1", "memory": "512Mi"}, requests=amounts),
    )
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=meta.namespace,
            labels={labels.ORIGIN_NAME: meta.name, labels.ORIGIN_KIND: RAY_SERVICES.kind},
            # A member of the cluster's gang beyond its size: it need not wait for a queue a second time.
            annotations={GROUP_NAME: f"ray-{cluster.metadata.name}-pg", TASK_SPEC: "deployer"},
            owner_references=[owned_by(RAY_SERVICES, service)],
        ),
        spec=PodSpec(
            containers=[container],
            restart_policy="OnFailure",
            scheduler_name=heads.scheduler_name or "volcano",
            image_pull_secrets=heads.image_pull_secrets,
            tolerations=heads.tolerations,
            node_selector=heads.node_selector,
        ),
    )


def told_by(pod: Pod | None, config: str) -> dict[str, AppStatus] | None:
    """State of each application as the deployer last told it; DEPLOYING before it has told anything."""
    for status in (pod.status.container_statuses if pod is not None else None) or ():
        for state in (status.state, status.last_state):
            ended = state.terminated if state is not None else None
            if ended is not None and (found := _read(ended.message)):
                return found
            if ended is not None and ended.exit_code:
                text = ended.message or f"the deployer ended with code {ended.exit_code}"
                return {name: AppStatus(status=DEPLOY_FAILED, message=text) for name in names(config)} or None
    return {name: AppStatus(status=DEPLOYING) for name in names(config)} or None


def names(config: str) -> list[str]:
    """Names of the applications of a configuration; none where it cannot be read."""
    try:
        found = [document.value for document in load_all(config)]
    except ConfigError:
        return []
    apps = found[0].get("applications") if found and isinstance(found[0], dict) else None
    return [str(each.get("name", "default")) for each in apps or () if isinstance(each, dict)]


def _read(text: str | None) -> dict[str, AppStatus]:
    try:
        return msgspec.convert(json_object(text), dict[str, AppStatus])
    except msgspec.ValidationError:
        return {}


def _verbatim(text: str) -> str:
    """A variable's value in which Kubernetes replaces nothing."""
    return text.replace("$(", "$$(")
