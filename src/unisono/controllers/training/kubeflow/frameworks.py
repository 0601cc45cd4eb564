"""What the pods of TFJob, PyTorchJob, JAXJob, PaddleJob and XGBoostJob are told, and when these jobs end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from unisono.api.core import Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod, ResourceRequirements
from unisono.api.defaulting.kubeflow import AUTO, elastic_limits
from unisono.api.groups.kubeflow import ElasticPolicy, PyTorchJobSpec, TFJobSpec
from unisono.api.kind_families import JAX_JOBS, PADDLE_JOBS, PYTORCH_JOBS, TF_JOBS, XGBOOST_JOBS
from unisono.controllers.owners import whole_number
from unisono.controllers.training.kubeflow import framework

# TFJob: TF_CONFIG, and the rules of chief, workers and parameter servers.

ALL_WORKERS = "AllWorkers"


class TensorFlow(framework.Framework):
    """Jobs whose processes read TF_CONFIG."""

    kind = TF_JOBS
    operator = "tfjob-controller"

    def is_master(self, view: framework.TrainingView, role: framework.Role, index: int) -> bool:
        """Chief or master; worker 0 of a job without them."""
        if role.name in ("Chief", "Master"):
            return True
        return role.name == "Worker" and index == 0 and framework.leader(view, "Chief", "Master") is None

    def prepare(self, view: framework.TrainingView, role: framework.Role, index: int, pod: Pod) -> None:
        """TF_CONFIG for the container that trains, unless the job is a single process."""
        if view.total == 1:
            return
        config = self.sparse(view, role, index) if _spec(view).enable_dynamic_worker else self.whole(view, role, index)
        containers = pod.spec.containers or []
        named = [each for each in containers if each.name == view.facts.container] or containers[:1]
        framework.append_env(named, [("TF_CONFIG", msgspec.json.encode(config).decode())])

    def whole(self, view: framework.TrainingView, role: framework.Role, index: int) -> dict[str, Any]:
        """TF_CONFIG with all hosts."""
        return {
            "cluster": {
                each.lower: self._addresses(view, each) for each in sorted(view.roles, key=lambda role: role.lower)
            },
            "task": {"type": role.lower, "index": index},
            "environment": "cloud",
        }

    def sparse(self, view: framework.TrainingView, role: framework.Role, index: int) -> dict[str, Any]:
        """TF_CONFIG of workers that come and go: each knows itself and the parameter servers."""
        servers = view.role("PS")
        workers: dict[str, str] = {}
        ps: list[str] | msgspec.Raw = []
        if role.name == "Worker":
            workers = {str(index): self.address(view, role, index)}
            ps = self._addresses(view, servers) if servers is not None else []
        elif role.name == "PS":
            ps = [self.address(view, role, index)]
        return {"cluster": {"worker": workers, "ps": ps}, "task": {"type": role.lower, "index": index}}

    def _addresses(self, view: framework.TrainingView, role: framework.Role) -> msgspec.Raw:
        """Hosts and ports of the role's pods, as JSON."""
        text = view.once(
            role.name, lambda: msgspec.json.encode([self.address(view, role, i) for i in range(role.replicas)]).decode()
        )
        return msgspec.Raw(text.encode())

    def address(self, view: framework.TrainingView, role: framework.Role, index: int) -> str:
        """Host and port of a pod."""
        return f"{self.pod_name(view, role, index)}.{view.namespace}.svc:{view.port(role)}"

    def judge(self, view: framework.TrainingView, tallies: framework.Tallies) -> framework.Judgement:
        """The chief decides; without one, worker 0 or all workers."""
        verdict, full = framework.Judgement(), f"{view.namespace}/{view.name}"
        chief = framework.leader(view, "Chief", "Master")
        counts = tallies[chief.name] if chief is not None else tallies.get("Worker", framework.RoleTally(0))
        if counts.active:
            verdict.running = f"{view.kind} {full} is running."
        done = counts.replicas > 0 and counts.expected <= 0
        if chief is None and not done and _spec(view).success_policy != ALL_WORKERS:
            first = counts.pods.get(0)
            done = first is not None and first.phase == "Succeeded"
        if done:
            verdict.succeeded = f"{view.kind} {full} successfully completed."
            return verdict
        for role in view.roles:
            tally = tallies[role.name]
            dynamic = role.name == "Worker" and _spec(view).enable_dynamic_worker
            if (
                tally.crashed
                and role.restart_policy == framework.NEVER
                and not dynamic
                and not view.holds(framework.RESTARTING)
            ):
                verdict.failed = f"{view.kind} {full} has failed because {tally.crashed} {role.name} replica(s) failed."
                break
        return verdict


def _spec(view: framework.TrainingView) -> TFJobSpec:
    spec = view.job.spec
    assert isinstance(spec, TFJobSpec)
    return spec


# PyTorchJob: variables of torchrun and ``init_process_group``, elastic jobs, workers that wait for their master.

INIT_IMAGE = "alpine:3.10"
_INIT_TRIES = 100
# torchrun shares one store between its rounds and tells its address only in the round in which it was opened: a worker
# that comes later waits for it until all have timed out and the whole job begins again. With a store for each round,
# which this asks for, it is told in every one. Releases before 2.4 do so without being asked.
_STORE_PER_ROUND = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"


class PyTorch(framework.Framework):
    """Jobs of ``torchrun`` or of scripts that read MASTER_ADDR, RANK and WORLD_SIZE."""

    kind = PYTORCH_JOBS
    operator = "pytorchjob-controller"
    selector = True
    autoscales = True

    def is_master(self, view: framework.TrainingView, role: framework.Role, index: int) -> bool:
        """The master, or worker 0 of a job without one."""
        return role.name == "Master" or (index == 0 and framework.leader(view, "Master") is None)

    def prepare(self, view: framework.TrainingView, role: framework.Role, index: int, pod: Pod) -> None:
        """Environment of every container; workers wait until the master has a name."""
        framework.append_env(pod.spec.containers or (), self.environment(view, role, index))
        if _pytorch_spec(view).elastic_policy is not None:
            for container in pod.spec.containers or ():
                _add_unless_given(container, _STORE_PER_ROUND, "1")
        if role.name == "Worker" and framework.leader(view, "Master") is not None:
            pod.spec.init_containers = [*(pod.spec.init_containers or ()), wait_for(f"{view.name}-master-0")]

    def environment(self, view: framework.TrainingView, role: framework.Role, index: int) -> Iterator[tuple[str, str]]:
        """Variables in the order in which they are appended."""
        spec, master = _pytorch_spec(view), framework.leader(view, "Master")
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

    def judge(self, view: framework.TrainingView, tallies: framework.Tallies) -> framework.Judgement:
        """The master decides; without one, all workers, or any of an elastic job."""
        return judge_led(view, tallies, any_worker=_pytorch_spec(view).elastic_policy is not None)


def judge_led(
    view: framework.TrainingView, tallies: framework.Tallies, *, any_worker: bool = False
) -> framework.Judgement:
    """The rule of jobs that a master leads, if they have one; otherwise the workers count."""
    judgement = framework.Judgement()
    master = tallies.get("Master")
    if master is not None:
        if master.active:
            judgement.running = f"{view.kind} {view.name} is running."
        if master.expected <= 0:
            judgement.succeeded = f"{view.kind} {view.name} is successfully completed."
        return framework.judge_restartable(view, tallies, judgement, done=bool(judgement.succeeded))
    worker, full = tallies["Worker"], f"{view.namespace}/{view.name}"
    if worker.expected <= 0 or (any_worker and worker.succeeded):
        judgement.succeeded = f"{view.kind} {full} successfully completed."
    elif worker.active:
        judgement.running = f"{view.kind} {full} is running."
    return framework.judge_restartable(view, tallies, judgement, done=bool(judgement.succeeded))


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


def _elastic(view: framework.TrainingView, policy: ElasticPolicy) -> Iterator[tuple[str, str]]:
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


def _pytorch_spec(view: framework.TrainingView) -> PyTorchJobSpec:
    spec = view.job.spec
    assert isinstance(spec, PyTorchJobSpec)
    return spec


# JAXJob: the variables of ``jax.distributed.initialize``.


class Jax(framework.Framework):
    """Jobs of equal processes, of which the first coordinates."""

    kind = JAX_JOBS
    operator = "jaxjob-controller"
    selector = True

    def is_master(self, view: framework.TrainingView, role: framework.Role, index: int) -> bool:
        """The coordinator."""
        return index == 0

    def prepare(self, view: framework.TrainingView, role: framework.Role, index: int, pod: Pod) -> None:
        """Environment of every container."""
        framework.append_env(pod.spec.containers or (), self.environment(view, index))

    def environment(self, view: framework.TrainingView, index: int) -> Iterator[tuple[str, str]]:
        """Variables in the order in which they are appended."""
        yield "PYTHONUNBUFFERED", "1"
        yield "COORDINATOR_PORT", str(view.port(view.role("Worker")))
        yield "COORDINATOR_ADDRESS", f"{view.name}-worker-0"
        yield "NUM_PROCESSES", str(view.total)
        yield "PROCESS_ID", str(index)

    def judge(self, view: framework.TrainingView, tallies: framework.Tallies) -> framework.Judgement:
        """All processes must succeed."""
        return judge_led(view, tallies)


# PaddleJob: the variables of ``paddle.distributed.launch``.


class Paddle(framework.Framework):
    """Jobs of workers (collective mode), or of servers and trainers (a job with a master)."""

    kind = PADDLE_JOBS
    operator = "paddlejob-controller"
    selector = True

    def prepare(self, view: framework.TrainingView, role: framework.Role, index: int, pod: Pod) -> None:
        """Environment of every container."""
        added = self.environment(view, role, index)
        for container in pod.spec.containers or ():
            container.env = [*(container.env or ()), *added]

    def environment(self, view: framework.TrainingView, role: framework.Role, index: int) -> list[EnvVar]:
        """Variables in the order in which they are appended."""
        master = framework.leader(view, "Master")
        meeting = master or view.role("Worker") or role
        port = view.port(meeting)
        variables = [
            EnvVar(name="PYTHONUNBUFFERED", value="1"),
            EnvVar(name="PADDLE_JOB_ID", value=view.name),
            EnvVar(name="PADDLE_NNODES", value=str(view.total)),
        ]
        if role.name == meeting.name and index == 0:
            # The pod that the others meet knows itself by address: its own Service may not lead to it yet.
            own = EnvVarSource(field_ref=ObjectFieldSelector(field_path="status.podIP"))
            variables.append(EnvVar(name="POD_IP_DUMMY", value_from=own))
            variables.append(EnvVar(name="PADDLE_MASTER", value=f"$(POD_IP_DUMMY):{port}"))
        else:
            variables.append(EnvVar(name="PADDLE_MASTER", value=f"{self.pod_name(view, meeting, 0)}:{port}"))
        if master is not None:
            name = "PADDLE_SERVER_NUM" if role.name == "Master" else "PADDLE_TRAINER_NUM"
            variables.append(EnvVar(name=name, value="1"))
        return variables

    def judge(self, view: framework.TrainingView, tallies: framework.Tallies) -> framework.Judgement:
        """The master decides; without one, all workers."""
        return judge_led(view, tallies)


# XGBoostJob: the variables of the Rabit tracker and of LightGBM.


class XGBoost(framework.Framework):
    """Jobs of a master and its workers."""

    kind = XGBOOST_JOBS
    operator = "xgboostjob-controller"

    def prepare(self, view: framework.TrainingView, role: framework.Role, index: int, pod: Pod) -> None:
        """Environment of every container."""
        framework.append_env(pod.spec.containers or (), self.environment(view, role, index))

    def environment(self, view: framework.TrainingView, role: framework.Role, index: int) -> Iterator[tuple[str, str]]:
        """Variables in the order in which they are appended."""
        master, worker = view.role("Master"), view.role("Worker")
        masters = master.replicas if master is not None else 0
        yield "MASTER_PORT", str(view.port(master))
        yield "MASTER_ADDR", f"{view.name}-master-0"
        yield "WORLD_SIZE", str(view.total)
        yield "RANK", str(index if role.name == "Master" else index + masters)
        yield "PYTHONUNBUFFERED", "1"
        if view.total > 1:
            yield "WORKER_PORT", str(view.port(worker))
            yield "WORKER_ADDRS", view.once("workers", lambda: _workers(view))

    def judge(self, view: framework.TrainingView, tallies: framework.Tallies) -> framework.Judgement:
        """The master decides; a failed pod fails the job unless its exit code is to be looked at."""
        verdict = framework.Judgement()
        master = tallies.get("Master")
        if master is not None:
            if master.active:
                verdict.running = f"{view.kind} {view.name} is running."
            if master.expected <= 0:
                verdict.succeeded = f"{view.kind} {view.name} is successfully completed."
                return verdict
        return framework.judge_by_exit_code(view, tallies, verdict)


def _workers(view: framework.TrainingView) -> str:
    return ",".join(f"{view.name}-worker-{i}" for i in range(view.total - 1))
