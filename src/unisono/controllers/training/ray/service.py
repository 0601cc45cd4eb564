"""What to do about a RayService: a pure function from observed objects and the time to a plan.

::

    no cluster ──► pending: its head is ready ──► the applications run ──► active: the Services lead to it
                      ▲                                                      │ another cluster is wanted
                      └──────────────────────────────────────────────────────┘ (the active one serves until then)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from unisono.api import core
from unisono.api.base import ObjectMeta
from unisono.api.conditions import is_true
from unisono.api.groups import ray
from unisono.api.keys import GROUP_NAME, LAST_APPLIED, RAY_CLUSTER, TASK_SPEC
from unisono.api.kind_families import RAY_CLUSTERS, RAY_SERVICES
from unisono.api.kinds import SERVICES
from unisono.api.times import parse_time, rfc3339
from unisono.api.validation.training import validate_ray_service
from unisono.api.yaml import load_all
from unisono.controllers.objects import to_json
from unisono.controllers.owners import json_object, owned_by
from unisono.controllers.plan import Resource
from unisono.controllers.pod_facts import has_failed, has_succeeded, is_deleting, is_ready
from unisono.controllers.training.controller import Seen
from unisono.controllers.training.plan import TrainingPlan, set_condition
from unisono.controllers.training.ray import pods as view
from unisono.controllers.training.ray.pods import RayClusterView
from unisono.controllers.training.ray.pods import head_service as cluster_head_service
from unisono.errors import ConfigError
from unisono.jobkinds.registry import handed_to

# What a RayService adds to its cluster, and the Services that lead to it.

# Bash connects by itself: not every image has a program for HTTP.
_HEALTHY = (
    "exec 3<>/dev/tcp/127.0.0.1/{port} && printf 'GET /-/healthz HTTP/1.0\\r\\n\\r\\n' >&3 && "
    "read -t 4 -u 3 line && case $line in *' 200 '*) exit 0;; esac; exit 1"
)


def cluster_spec(service: ray.RayService) -> ray.RayClusterSpec:
    """Spec of the service's cluster: pods that requests go to are marked, and ready when Ray Serve's proxy is."""
    spec = msgspec.convert(msgspec.to_builtins(service.spec.ray_cluster_config), ray.RayClusterSpec)
    _mark(spec.head_group_spec.template, serves=not service.spec.exclude_head_pod_from_serve_svc)
    for group in spec.worker_group_specs or ():
        _mark(group.template, serves=True)
        for container in (group.template.spec.containers or [])[:1]:
            # A worker without replicas of any application has no proxy, and gets no requests.
            container.readiness_probe = container.readiness_probe or _answers(serve_port(service))
    return spec


def _mark(template: core.PodTemplateSpec, *, serves: bool) -> None:
    template.metadata.labels = {**(template.metadata.labels or {}), view.SERVE: "true" if serves else "false"}


def _answers(port: int) -> core.Probe:
    command = ["/bin/bash", "-c", _HEALTHY.format(port=port)]
    return core.Probe(exec=core.ExecAction(command=command), period_seconds=5, timeout_seconds=5, failure_threshold=1)


def serve_port(service: ray.RayService) -> int:
    """Where the proxies listen: the head's port named ``serve``."""
    containers = service.spec.ray_cluster_config.head_group_spec.template.spec.containers or []
    named = (port for port in (containers[0].ports if containers else None) or () if port.name == "serve")
    return next((port.container_port for port in named), view.SERVE_PORT)


def head_service(service: ray.RayService, cluster: ray.RayCluster) -> core.Service:
    """The Service of the head that serves, under the name of the RayService: it stays when clusters come and go."""
    made = cluster_head_service(RayClusterView(cluster))
    made.metadata.name = view.head_service_name(service.metadata.name)
    made.metadata.owner_references = [owned_by(RAY_SERVICES, service)]
    return made


def serve_service(service: ray.RayService, cluster: ray.RayCluster) -> core.Service:
    """The Service of the applications; what ``serveService`` says is merged into it."""
    own: dict[str, Any] = service.spec.serve_service or {}
    given = own.get("metadata") or {}
    port = serve_port(service)
    meta = service.metadata
    name = str(given.get("name") or view.serve_service_name(meta.name))
    marks = {view.ORIGIN_NAME: meta.name, view.ORIGIN_KIND: RAY_SERVICES.kind, view.SERVE: name}
    spec = core.ServiceSpec(ports=[core.ServicePort(name="serve", port=port, target_port=port)])
    # Ports that the user names are used; which pods answer is the controller's to say.
    merged = {**msgspec.to_builtins(spec), **(own.get("spec") or {})}
    merged["selector"] = {RAY_CLUSTER: cluster.metadata.name, view.SERVE: "true"}
    return core.Service(
        metadata=ObjectMeta(
            name=name,
            namespace=meta.namespace,
            labels={**(given.get("labels") or {}), **marks},
            annotations=given.get("annotations") or None,
            owner_references=[owned_by(RAY_SERVICES, service)],
        ),
        spec=msgspec.convert(merged, core.ServiceSpec),
    )


# Who hands the configuration of Ray Serve to a cluster: a pod that ends well when all applications run.

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


def deployer_name(cluster: ray.RayCluster, head: core.Pod, config: str) -> str:
    """Name of the pod: another one for another configuration, and for a new head, which knows nothing."""
    starts = sum(each.restart_count or 0 for each in head.status.container_statuses or ())
    name = cluster.metadata.name
    return view.pod_name(f"{name}-serve", cluster.metadata.uid, head.metadata.uid, starts, config)


def deployer_pod(service: ray.RayService, cluster: ray.RayCluster, name: str) -> core.Pod:
    """The pod that deploys the service's applications on a cluster; it tries again until they run."""
    meta, at = service.metadata, view.head_address(cluster.metadata.name, service.metadata.namespace or "")
    heads = cluster.spec.head_group_spec.template.spec
    main = (heads.containers or [core.Container()])[0]
    amounts: dict[str, str | int | float] = {"cpu": "200m", "memory": "256Mi"}
    container = core.Container(
        name=_NAME,
        image=main.image,
        image_pull_policy=main.image_pull_policy,
        command=["/bin/bash", "-c", 'exec "$(command -v python || command -v python3)" -c "$SERVE_DEPLOYER"'],
        env=[
            core.EnvVar(name="RAY_DASHBOARD_ADDRESS", value=f"http://{at}:{view.DASHBOARD_PORT}"),
            core.EnvVar(name="SERVE_CONFIG", value=_verbatim(service.spec.serve_config_v2 or "")),
            core.EnvVar(name="SERVE_DEPLOYER", value=_verbatim(_SCRIPT)),
        ],
        resources=core.ResourceRequirements(limits={"cpu": "1", "memory": "512Mi"}, requests=amounts),
    )
    return core.Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=meta.namespace,
            labels={view.ORIGIN_NAME: meta.name, view.ORIGIN_KIND: RAY_SERVICES.kind},
            # A member of the cluster's gang beyond its size: it need not wait for a queue a second time.
            annotations={GROUP_NAME: f"ray-{cluster.metadata.name}-pg", TASK_SPEC: "deployer"},
            owner_references=[owned_by(RAY_SERVICES, service)],
        ),
        spec=core.PodSpec(
            containers=[container],
            restart_policy="OnFailure",
            scheduler_name=heads.scheduler_name or "volcano",
            image_pull_secrets=heads.image_pull_secrets,
            tolerations=heads.tolerations,
            node_selector=heads.node_selector,
        ),
    )


def told_by(pod: core.Pod | None, config: str) -> dict[str, ray.AppStatus] | None:
    """State of each application as the deployer last told it; DEPLOYING before it has told anything."""
    for status in (pod.status.container_statuses if pod is not None else None) or ():
        for state in (status.state, status.last_state):
            ended = state.terminated if state is not None else None
            if ended is not None and (statuses := _read(ended.message)):
                return statuses
            if ended is not None and ended.exit_code:
                text = ended.message or f"the deployer ended with code {ended.exit_code}"
                return {name: ray.AppStatus(status=DEPLOY_FAILED, message=text) for name in names(config)} or None
    return {name: ray.AppStatus(status=DEPLOYING) for name in names(config)} or None


def names(config: str) -> list[str]:
    """Names of the applications of a configuration; none where it cannot be read."""
    try:
        documents = [document.value for document in load_all(config)]
    except ConfigError:
        return []
    apps = documents[0].get("applications") if documents and isinstance(documents[0], dict) else None
    return [str(each.get("name", "default")) for each in apps or () if isinstance(each, dict)]


def _read(text: str | None) -> dict[str, ray.AppStatus]:
    try:
        return msgspec.convert(json_object(text), dict[str, ray.AppStatus])
    except msgspec.ValidationError:
        return {}


def _verbatim(text: str) -> str:
    """A variable's value in which Kubernetes replaces nothing."""
    return text.replace("$(", "$$(")


READY, UPGRADING = "Ready", "UpgradeInProgress"
RUNNING = "Running"
SIZES, UNUSED_SINCE = "unisono.io/worker-groups", "unisono.io/unused-since"
_DELAY_SECONDS = 60


@dataclass(frozen=True, slots=True)
class SeenCluster:
    """A cluster of the service, and its pods."""

    cluster: ray.RayCluster
    pods: list[core.Pod]

    @property
    def head(self) -> core.Pod | None:
        """The pod of the head, once it is ready."""
        heads = (pod for pod in self.pods if (pod.metadata.labels or {}).get(view.NODE_TYPE) == "head")
        ready = is_true(self.cluster.status.conditions, "HeadPodReady")
        return next((pod for pod in heads if ready and is_ready(pod)), None)

    @property
    def endpoints(self) -> int:
        """Pods that requests go to."""
        return sum(is_ready(pod) and (pod.metadata.labels or {}).get(view.SERVE) == "true" for pod in self.pods)


def decide(seen: Seen[ray.RayService], clusters: Mapping[str, SeenCluster], now: float) -> TrainingPlan:
    """The next step for the service; an empty plan when another operator manages it.

    Args:
        seen: the service and the pods that deploy its applications.
        clusters: its clusters by name.
        now: seconds since 1970.
    """
    return _ServiceDecision(seen, clusters, now).run()


def cluster_name(service: ray.RayService) -> str:
    """Name of the cluster that the spec describes: another one where more than sizes of worker groups changes."""
    config = to_json(service.spec.ray_cluster_config)
    for group in config.get("workerGroupSpecs") or ():
        for field in ("replicas", "minReplicas", "maxReplicas", "scaleStrategy"):
            group.pop(field, None)
    digest = msgspec.json.encode([config, service.spec.exclude_head_pod_from_serve_svc or False], order="deterministic")
    return f"{service.metadata.name}-{view.letters(service.metadata.uid, digest)}"


class _ServiceDecision:
    def __init__(self, seen: Seen[ray.RayService], clusters: Mapping[str, SeenCluster], now: float) -> None:
        self.seen, self.service, self.clusters = seen, seen.job, clusters
        self.spec, self.now, self.time = seen.job.spec, now, rfc3339(now)
        self.plan = TrainingPlan()
        self.status = msgspec.convert(msgspec.to_builtins(seen.job.status), ray.RayServiceStatus)
        self.kept_pods: set[str] = set()

    def run(self) -> TrainingPlan:
        if handed_to(self.service)[1]:
            return TrainingPlan()
        if not self.status.conditions and (errors := [e.message() for e in validate_ray_service(self.service, None)]):
            self.plan.warn("InvalidRayServiceSpec", "; ".join(errors), once="; ".join(errors))
            return self.plan
        active, pending = self._choose()
        for name in filter(None, (active, pending)):
            self._bring_about(name)
        served = {name for name in filter(None, (active, pending)) if self._deploy(name)}
        if pending in served:
            self.plan.tell("Served", f"cluster {pending} serves the applications")
            active, pending = pending, ""
        self._tell(active, pending)
        self._lead_to(active)
        self._clean(active, pending)
        if self._changed():
            self.status.last_update_time = self.time
            self.status.observed_generation = self.service.metadata.generation
            self.plan.status = self.status
        return self.plan

    def _choose(self) -> tuple[str, str]:
        """Names of the cluster that serves and of the one that is to take over."""
        old = self.status.active_service_status
        active = (old.ray_cluster_name if old is not None else None) or ""
        desired_name = cluster_name(self.service)
        if active == desired_name:
            return active, ""
        if active and active not in self.clusters:
            # What served is gone and cannot be made again from a spec that has changed.
            active = ""
        keep = self.spec.upgrade_strategy is not None and self.spec.upgrade_strategy.type == ray.NO_UPGRADE
        return active, "" if active and keep else desired_name

    def _bring_about(self, name: str) -> None:
        """The cluster, if its spec is known, with as many workers as the service says now."""
        sizes = _sizes(self.spec.ray_cluster_config.worker_group_specs)
        seen = self.clusters.get(name)
        if seen is None:
            if name == cluster_name(self.service):
                self.plan.ensure.append(
                    Resource(
                        RAY_CLUSTERS,
                        self._cluster(name, sizes),
                        permanent=True,
                        missing=True,
                        warning="FailedToCreateRayCluster",
                    )
                )
            return
        marks = seen.cluster.metadata.annotations or {}
        patch: dict[str, Any] = {}
        if name == cluster_name(self.service) and marks.get(SIZES) != sizes:
            # Between two changes of the service, sizes belong to what scales the cluster.
            patch["spec"] = {
                "workerGroupSpecs": _resized(seen.cluster, self.spec.ray_cluster_config.worker_group_specs)
            }
            patch["metadata"] = {"annotations": {SIZES: sizes}}
        if UNUSED_SINCE in marks:
            patch.setdefault("metadata", {}).setdefault("annotations", {})[UNUSED_SINCE] = None
        if patch:
            self.plan.patches.append((RAY_CLUSTERS, name, patch))

    def _cluster(self, name: str, sizes: str) -> ray.RayCluster:
        meta = self.service.metadata
        given = {k: v for k, v in (meta.annotations or {}).items() if k != LAST_APPLIED}
        marks = {**(meta.labels or {}), view.ORIGIN_NAME: meta.name, view.ORIGIN_KIND: RAY_SERVICES.kind}
        return ray.RayCluster(
            metadata=ObjectMeta(
                name=name,
                namespace=meta.namespace,
                labels=marks,
                annotations={**given, SIZES: sizes},
                owner_references=[owned_by(RAY_SERVICES, self.service)],
            ),
            spec=cluster_spec(self.service),
        )

    def _deploy(self, name: str) -> bool:
        """Hand the applications over; answers whether they have come to run on this head."""
        seen = self.clusters.get(name)
        head = seen.head if seen is not None else None
        if seen is None or head is None:
            return False
        pod_name = deployer_name(seen.cluster, head, self.spec.serve_config_v2 or "")
        self.kept_pods.add(pod_name)
        pod = next((each for each in self.seen.pods if each.metadata.name == pod_name), None)
        if pod is None and f"pods/{pod_name}" not in self.seen.expected:
            self.plan.create_pods.append(partial(deployer_pod, self.service, seen.cluster, pod_name))
        if pod is not None and has_failed(pod):
            # It was evicted: containers that fail start again by themselves.
            self.plan.delete_pods.append(pod)
        return pod is not None and has_succeeded(pod)

    def _tell(self, active: str, pending: str) -> None:
        status = self.status
        status.active_service_status = self._of(active)
        status.pending_service_status = self._of(pending)
        seen = self.clusters.get(active)
        count = seen.endpoints if seen is not None else 0
        status.num_serve_endpoints = count
        status.service_status = RUNNING if count else ""
        if count:
            self._set(READY, "NonZeroServeEndpoints", f"{count} pods answer requests", holds=True)
        elif not active:
            self._set(READY, "Initializing", "the applications have not come to run yet", holds=False)
        else:
            self._set(READY, "ZeroServeEndpoints", "no pod answers requests", holds=False)
        if active and pending:
            text = f"cluster {pending} takes over from {active} when it serves the applications"
            self._set(UPGRADING, "BothActivePendingClustersExist", text, holds=True)
        else:
            reason = "NoPendingCluster" if active else "NoActiveCluster"
            self._set(UPGRADING, reason, "no cluster is about to take over", holds=False)

    def _of(self, name: str) -> ray.RayServiceClusterStatus | None:
        if not name:
            return None
        seen = self.clusters.get(name)
        report = None
        if seen is not None and (head := seen.head) is not None:
            config = self.spec.serve_config_v2 or ""
            deployer = deployer_name(seen.cluster, head, config)
            report = told_by(next((pod for pod in self.seen.pods if pod.metadata.name == deployer), None), config)
        return ray.RayServiceClusterStatus(
            application_statuses=report,
            ray_cluster_name=name,
            ray_cluster_status=seen.cluster.status if seen is not None else None,
        )

    def _lead_to(self, active: str) -> None:
        """The Services, from when a head can answer."""
        seen = self.clusters.get(active)
        if seen is None:
            return
        for made in (head_service(self.service, seen.cluster), serve_service(self.service, seen.cluster)):
            self.plan.ensure.append(Resource(SERVICES, made, warning="FailedToCreateService"))

    def _clean(self, active: str, pending: str) -> None:
        """Take away what is not used any more: a cluster after a while, for requests that it still answers."""
        living = (pod for pod in self.seen.pods if not is_deleting(pod))
        doomed = {pod.metadata.name for pod in self.plan.delete_pods}
        self.plan.delete_pods += [p for p in living if p.metadata.name not in self.kept_pods | doomed]
        delay = self.spec.ray_cluster_deletion_delay_seconds
        for name, observed in self.clusters.items():
            if name in (active, pending) or observed.cluster.metadata.deletion_timestamp:
                continue
            since = (observed.cluster.metadata.annotations or {}).get(UNUSED_SINCE)
            left = (_DELAY_SECONDS if delay is None else delay) - (self.now - parse_time(since) if since else 0)
            if left <= 0:
                self.plan.remove.append((RAY_CLUSTERS, observed.cluster))
                continue
            self.plan.again_within(left)
            if since is None:
                self.plan.patches.append((RAY_CLUSTERS, name, {"metadata": {"annotations": {UNUSED_SINCE: self.time}}}))

    def _changed(self) -> bool:
        old = self.service.status
        return old != msgspec.structs.replace(
            self.status, last_update_time=old.last_update_time, observed_generation=old.observed_generation
        )

    def _set(self, type: str, reason: str, message: str, *, holds: bool) -> None:
        value = "True" if holds else "False"
        self.status.conditions = set_condition(self.status.conditions, type, value, reason, message, self.time)


def _sizes(groups: list[ray.RayWorkerGroupSpec] | None) -> str:
    return view.letters(*[(g.group_name, g.replicas, g.min_replicas, g.max_replicas) for g in groups or ()])


def _resized(cluster: ray.RayCluster, wanted: list[ray.RayWorkerGroupSpec] | None) -> list[dict[str, Any]]:
    """The cluster's worker groups with the sizes of the service."""
    by_name = {group.group_name: to_json(group) for group in wanted or ()}
    fields = ("replicas", "minReplicas", "maxReplicas")
    made = []
    for group in to_json(cluster.spec).get("workerGroupSpecs") or ():
        given = by_name.get(group["groupName"], {})
        made.append(
            {key: value for key, value in group.items() if key not in fields}
            | {f: given[f] for f in fields if f in given}
        )
    return made
