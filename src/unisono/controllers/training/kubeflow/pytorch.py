"""PyTorchJob: variables of torchrun and ``init_process_group``, elastic jobs, workers that wait for their master."""

from __future__ import annotations

from collections.abc import Iterator

from unisono.api.core import Container, EnvVar, Pod, ResourceRequirements
from unisono.api.defaulting.kubeflow import AUTO, elastic_limits
from unisono.api.groups.kubeflow import ElasticPolicy, PyTorchJobSpec
from unisono.api.kind_families import PYTORCH_JOBS
from unisono.controllers.texts import whole_number
from unisono.controllers.training.kubeflow.framework import (
    Framework,
    Judgement,
    Tallies,
    append_env,
    judge_restartable,
    leader,
)
from unisono.controllers.training.kubeflow.view import Role, TrainingView

INIT_IMAGE = "alpine:3.10"
_INIT_TRIES = 100
# torchrun shares one store between its rounds and tells its address only in the round in which it was opened: a worker
# that comes later waits for it until all have timed out and the whole job begins again. With a store for each round,
# which this asks for, it is told in every one. Releases before 2.4 do so without being asked.
_STORE_PER_ROUND = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"


class PyTorch(Framework):
    """Jobs of ``torchrun`` or of scripts that read MASTER_ADDR, RANK and WORLD_SIZE."""

    kind = PYTORCH_JOBS
    operator = "pytorchjob-controller"
    selector = True
    autoscales = True

    def is_master(self, view: TrainingView, role: Role, index: int) -> bool:
        """The master, or worker 0 of a job without one."""
        return role.name == "Master" or (index == 0 and leader(view, "Master") is None)

    def prepare(self, view: TrainingView, role: Role, index: int, pod: Pod) -> None:
        """Environment of every container; workers wait until the master has a name."""
        append_env(pod.spec.containers or (), self.environment(view, role, index))
        if _spec(view).elastic_policy is not None:
            for container in pod.spec.containers or ():
                _add_unless_given(container, _STORE_PER_ROUND, "1")
        if role.name == "Worker" and leader(view, "Master") is not None:
            pod.spec.init_containers = [*(pod.spec.init_containers or ()), wait_for(f"{view.name}-master-0")]

    def environment(self, view: TrainingView, role: Role, index: int) -> Iterator[tuple[str, str]]:
        """Variables in the order in which they are appended."""
        spec, master = _spec(view), leader(view, "Master")
        nproc = spec.nproc_per_node
        policy = spec.elastic_policy
        if nproc is None and not (policy is not None and policy.n_proc_per_node is not None):
            nproc = AUTO
        yield "PYTHONUNBUFFERED", "1"
        if master is not None:
            port, address = str(view.port(master)), f"{view.name}-master-0"
            rank = str(index if role.name == "Master" else index + 1)
            yield from (("MASTER_PORT", port), ("PET_MASTER_PORT", port))
            yield from (("MASTER_ADDR", address), ("PET_MASTER_ADDR", address))
            yield "WORLD_SIZE", str(view.total * (whole_number(nproc) or 1))
            yield from (("RANK", rank), ("PET_NODE_RANK", rank))
        if nproc is not None:
            yield "PET_NPROC_PER_NODE", nproc
        if policy is None:
            yield "PET_NNODES", str(view.total)
        else:
            yield from _elastic(view, policy)

    def judge(self, view: TrainingView, tallies: Tallies) -> Judgement:
        """The master decides; without one, all workers, or any of an elastic job."""
        return judge_led(view, tallies, any_worker=_spec(view).elastic_policy is not None)


def judge_led(view: TrainingView, tallies: Tallies, *, any_worker: bool = False) -> Judgement:
    """The rule of jobs that a master leads, if they have one; otherwise the workers count."""
    told = Judgement()
    master = tallies.get("Master")
    if master is not None:
        if master.active:
            told.running = f"{view.kind} {view.name} is running."
        if master.expected <= 0:
            told.succeeded = f"{view.kind} {view.name} is successfully completed."
        return judge_restartable(view, tallies, told, done=bool(told.succeeded))
    worker, full = tallies["Worker"], f"{view.namespace}/{view.name}"
    if worker.expected <= 0 or (any_worker and worker.succeeded):
        told.succeeded = f"{view.kind} {full} successfully completed."
    elif worker.active:
        told.running = f"{view.kind} {full} is running."
    return judge_restartable(view, tallies, told, done=bool(told.succeeded))


def wait_for(host: str) -> Container:
    """An init container that ends well as soon as the name leads somewhere."""
    # getent also reads the hosts file, which is where names stand on a machine without a name server.
    script = (
        f"n=0; until getent hosts {host} >/dev/null 2>&1 || nslookup {host} >/dev/null 2>&1; do "
        f'n=$((n+1)); if [ "$n" -ge {_INIT_TRIES} ]; then echo "{host} is not known"; exit 1; fi; '
        f"echo waiting for {host}; sleep 2; done"
    )
    return Container(
        name="init-pytorch",
        image=INIT_IMAGE,
        image_pull_policy="IfNotPresent",
        command=["sh", "-c", script],
        resources=ResourceRequirements(
            limits={"cpu": "100m", "memory": "20Mi"}, requests={"cpu": "50m", "memory": "10Mi"}
        ),
    )


def _elastic(view: TrainingView, policy: ElasticPolicy) -> Iterator[tuple[str, str]]:
    worker = view.role("Worker")
    low, high = elastic_limits(policy, worker.replicas if worker is not None else 0)
    host = policy.rdzv_host or f"{view.name}-worker-0"
    yield "PET_RDZV_ENDPOINT", f"{host}:{policy.rdzv_port or view.port(worker)}"
    yield "PET_RDZV_BACKEND", policy.rdzv_backend or "c10d"
    yield "PET_NNODES", f"{low}:{high}"
    if policy.max_restarts is not None:
        yield "PET_MAX_RESTARTS", str(policy.max_restarts)
    if policy.n_proc_per_node is not None:
        yield "PET_NPROC_PER_NODE", str(policy.n_proc_per_node)
    if policy.rdzv_id is not None:
        yield "PET_RDZV_ID", policy.rdzv_id
    if policy.rdzv_conf:
        yield "PET_RDZV_CONF", ",".join(f"{each.key or ''}={each.value or ''}" for each in policy.rdzv_conf)
    if policy.standalone:
        yield "PET_STANDALONE", ""


def _add_unless_given(container: Container, name: str, value: str) -> None:
    """Append a variable that the author of the job may set otherwise."""
    given = container.env or []
    if all(variable.name != name for variable in given):
        container.env = [*given, EnvVar(name=name, value=value)]


def _spec(view: TrainingView) -> PyTorchJobSpec:
    spec = view.job.spec
    assert isinstance(spec, PyTorchJobSpec)
    return spec
