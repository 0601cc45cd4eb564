"""Attacks on one mechanism each that random fields would rarely hit: cycles, floods, junk that plug-ins parse."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

from benchmarks.hostile.bases import SELECTOR, Body, crd, jobset, kubeflow, pod, template, vcjob, webhook
from benchmarks.hostile.values import CELS, CRONS, INTEGERS, JUNK, NAMES, PATTERNS, QUANTITIES

Scene = Callable[[Random], Body]

_ANNOTATIONS = (
    *("unisono.io/run-seconds", "unisono.io/min-run-time", "unisono.io/checkpoint-time", "unisono.io/max-evictions"),
    *(
        "unisono.io/verdict",
        "unisono.io/gpu-cards",
        "unisono.io/exit-code",
        "unisono.io/usage-cpu",
        "unisono.io/usage-time",
    ),
    *("unisono.io/usage-memory", "unisono.io/shared-network", "unisono.io/working-directory", "volcano.sh/task-spec"),
    *(
        "volcano.sh/task-index",
        "volcano.sh/job-name",
        "volcano.sh/queue-name",
        "volcano.sh/job-version",
        "volcano.sh/preemptable",
    ),
    *("volcano.sh/job-retry-count", "scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"),
    *("scheduling.volcano.sh/group-min-member", "scheduling.volcano.sh/queue-name", "volcano.sh/cooldown-time"),
    *(
        "volcano.sh/revocable-zone",
        "volcano.sh/jdb-min-available",
        "volcano.sh/jdb-max-unavailable",
        "volcano.sh/qos-level",
    ),
    *(
        "volcano.sh/numa-topology-policy",
        "volcano.sh/topology-decision",
        "volcano.sh/sla-waiting-time",
        "sla-waiting-time",
    ),
    *("volcano.sh/resource-strategy-scoring-type", "volcano.sh/resource-strategy-weight", "volcano.sh/vgpu-mode"),
    *("nvidia.com/use-gputype", "nvidia.com/nouse-gputype", "volcano.sh/vgpu-use-gpuuuid", "volcano.sh/hierarchy"),
    *("volcano.sh/hierarchy-weights", "volcano.sh/task-topology-affinity", "volcano.sh/task-topology-anti-affinity"),
    *(
        "volcano.sh/task-topology-task-order",
        "volcano.sh/template-uid",
        "volcano.sh/nodegroup-name",
        "volcano.sh/controller-out-of-sync",
    ),
    *("kubectl.kubernetes.io/last-applied-configuration", "scheduler.alpha.kubernetes.io/critical-pod"),
    *("volcano.sh/network-topology-mode", "volcano.sh/network-topology-highest-tier", "volcano.sh/partition-id"),
)


def annotations(rng: Random) -> dict[str, str]:
    """Annotations that components parse, with unexpected values."""
    found = {key: rng.choice(JUNK) for key in rng.sample(_ANNOTATIONS, rng.choice((1, 3, 10)))}
    room = 200_000
    for key, value in found.items():
        found[key] = value[:room]
        room -= len(found[key].encode("utf-8", "replace"))
        room = max(room, 0)
    return {key: value.encode("utf-8", "replace").decode() for key, value in found.items()}


def _with(rng: Random, spec: Body) -> Body:
    return {"metadata": {"annotations": annotations(rng)}, "spec": spec}


def _plain(spec: Body) -> Body:
    return {"metadata": {}, "spec": spec}


def _huge_requests(rng: Random) -> Body:
    def container(name: str) -> Body:
        wanted = {key: rng.choice(QUANTITIES) for key in ("cpu", "memory", "nvidia.com/gpu", "ephemeral-storage")}
        return {"name": name, "image": "x", "resources": {"requests": wanted, "limits": wanted}}

    return _plain(pod(containers=[container(f"c{n}") for n in range(rng.choice((1, 2, 50)))]))


def _terms(rng: Random) -> Body:
    count = rng.choice((1, 20, 300))
    term: Body = {
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
        "topologyKey": "kubernetes.io/hostname",
    }
    anywhere: Body = {**term, "namespaceSelector": {}}
    kind = rng.choice(("podAffinity", "podAntiAffinity"))
    weighed = [{"weight": 100, "podAffinityTerm": anywhere} for _ in range(count)]
    node = [{"matchExpressions": [{"key": f"k{n}", "operator": "NotIn", "values": ["v"] * 20}]} for n in range(count)]
    return _plain(
        pod(
            affinity={
                kind: {
                    "requiredDuringSchedulingIgnoredDuringExecution": [rng.choice((term, anywhere))] * count,
                    "preferredDuringSchedulingIgnoredDuringExecution": weighed,
                },
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": node}},
            }
        )
    )


def _spread(rng: Random) -> Body:
    keys = ["kubernetes.io/hostname", *(f"zone{n}" for n in range(rng.choice((0, 50))))]
    skew = rng.choice((1, 2**31 - 1))
    constraints = [
        {"topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "maxSkew": skew, "labelSelector": {}} for key in keys
    ]
    return _plain(
        pod(topologySpreadConstraints=constraints, tolerations=[{"operator": "Exists"}] * rng.choice((1, 500)))
    )


def _gated(rng: Random) -> Body:
    gates = [{"name": f"x.y/g{n}"} for n in range(rng.choice((1, 200)))]
    claims = [
        {"name": f"c{n}", rng.choice(("resourceClaimName", "resourceClaimTemplateName")): "hostile-x"} for n in range(8)
    ]
    return _with(rng, pod(**rng.choice(({"schedulingGates": gates}, {"resourceClaims": claims}))))


def _volumes(rng: Random) -> Body:
    claim: Body = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": rng.choice(QUANTITIES)}}}
    kinds: tuple[Body, ...] = (
        {"persistentVolumeClaim": {"claimName": "does-not-exist"}},
        {"ephemeral": {"volumeClaimTemplate": {"spec": claim}}},
        {"configMap": {"name": "does-not-exist"}},
        {"secret": {"secretName": "does-not-exist"}},
        {"emptyDir": {"medium": "Memory", "sizeLimit": "8Ei"}},
    )
    volumes = [{"name": f"v{n}", **rng.choice(kinds)} for n in range(rng.choice((1, 100)))]
    return _plain(pod(volumes=volumes))


def _job(rng: Random) -> Body:
    spec = vcjob()
    count = rng.choice((1, 3, 100))
    spec["tasks"] = [
        {**spec["tasks"][0], "name": f"t{n}", "replicas": rng.choice((0, 1, 2, 500))} for n in range(count)
    ]
    for n, task in enumerate(spec["tasks"]):
        if rng.random() < 0.3:
            task["dependsOn"] = {"name": [f"t{(n + 1) % count}"], "iteration": rng.choice(("any", "all"))}
        if rng.random() < 0.2:
            task["minAvailable"] = rng.choice((0, 1))
    spec["minAvailable"] = rng.choice((0, 1, 1, 50_001, 2**31 - 1))
    return _with(rng, spec)


def _job_of_any_size(rng: Random) -> Body:
    spec = vcjob()
    size = rng.choice((50_000, 50_001, 2**31 - 1, 10_000))
    spec["tasks"][0]["replicas"] = size
    spec["minAvailable"] = rng.choice((1, size))
    return _plain(spec)


def _job_plugins(rng: Random) -> Body:
    spec = vcjob()
    words = rng.choice(
        (["--port=99999999999"], ["-1"], ["--master"], ["x" * 1000], ["--port=abc"], [""] * 300, ["--no-root=maybe"])
    )
    known = ("svc", "ssh", "env", "pytorch", "tensorflow", "mpi", "ray", "hcclrank", "jax", "nothing")
    spec["plugins"] = dict.fromkeys(rng.sample(known, 3), words)
    spec["ttlSecondsAfterFinished"] = rng.choice((0, 2**31 - 1))
    spec["maxRetry"] = rng.choice((0, 1, 2**31 - 1))
    spec["policies"] = [
        {"event": "PodPending", "action": "RestartJob", "timeout": rng.choice(("0s", "1ns", "1h", "2562047h"))}
    ]
    return _with(rng, spec)


def _fast_failing(rng: Random) -> Body:
    """Pods that end at once, of a job that starts again for ever."""
    spec = vcjob()
    spec["maxRetry"] = 2**31 - 1
    spec["policies"] = [
        {"event": "PodFailed", "action": "RestartJob"},
        {"event": "TaskCompleted", "action": "RestartJob"},
    ]
    spec["tasks"][0]["template"]["metadata"]["annotations"] = {
        "unisono.io/run-seconds": rng.choice(("0", "0.001")),
        "unisono.io/exit-code": rng.choice(("0", "1", "-1", "999999")),
    }
    return _plain(spec)


def _networked(rng: Random) -> Body:
    spec = vcjob()
    spec["networkTopology"] = {"mode": rng.choice(("hard", "soft")), "highestTierAllowed": rng.choice(INTEGERS)}
    policy = {"subGroupSize": rng.choice((1, 2, 2**31 - 1)), "labelSelector": SELECTOR}
    spec["tasks"][0]["partitionPolicy"] = {
        "totalPartitions": rng.choice(INTEGERS),
        "partitionSize": rng.choice(INTEGERS),
        **policy,
    }
    return _with(rng, spec)


def _flow(rng: Random) -> Body:
    names = [f"hostile-{rng.randrange(50)}" for _ in range(rng.choice((2, 20, 300)))]
    flows: list[Body] = [
        {"name": name, "dependsOn": {"targets": rng.choices(names, k=3)}} for name in dict.fromkeys(names)
    ]
    flows[0].pop("dependsOn")
    flows[-1]["dependsOn"] = {
        "targets": [flows[0]["name"]],
        "probe": {
            "httpGetList": [{"taskName": "a", "path": "/" * 2000, "port": 1}] * 50,
            "taskStatusList": [{"taskName": "a", "phase": "Running"}],
        },
    }
    return _plain({"jobRetainPolicy": "delete", "flows": flows})


def _hyper_job(rng: Random) -> Body:
    count = rng.choice((1, 50))
    jobs = [
        {"name": f"a{n}", "replicas": rng.choice((1, 50, 2**31 - 1)), "templateSpec": vcjob()} for n in range(count)
    ]
    return _plain(
        {
            "replicatedJobs": jobs,
            "minAvailable": rng.choice((0, 1, 2**31 - 1)),
            "maxDomains": rng.choice((0, 2**31 - 1)),
        }
    )


def _cron(rng: Random) -> Body:
    zone = rng.choice(("Etc/UTC", "America/Sao_Paulo", None))
    return _plain(
        {
            "schedule": rng.choice(CRONS),
            **({"timeZone": zone} if zone else {}),
            "startingDeadlineSeconds": rng.choice((0, 1, 2**53)),
            "successfulJobsHistoryLimit": rng.choice((0, 2**31 - 1)),
            "jobTemplate": {"spec": vcjob()},
        }
    )


def _batch_cron(rng: Random) -> Body:
    job = {"parallelism": rng.choice((0, 2**31 - 1)), "template": template(restartPolicy="Never")}
    return _plain(
        {"schedule": rng.choice(CRONS), "startingDeadlineSeconds": rng.choice((0, 2**53)), "jobTemplate": {"spec": job}}
    )


def _batch_job(rng: Random) -> Body:
    size = rng.choice((1, 100, 50_001, 2**31 - 1))
    rules = [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": list(range(1, 200))}}] * rng.choice(
        (1, 20)
    )
    return _plain(
        {
            "completionMode": "Indexed",
            "completions": size,
            "parallelism": min(size, rng.choice((1, 100, 2**31 - 1))),
            "backoffLimitPerIndex": rng.choice((0, 2**31 - 1)),
            "maxFailedIndexes": min(size, 10),
            "podFailurePolicy": {"rules": rules},
            "template": template(restartPolicy="Never"),
        }
    )


def _workload(rng: Random) -> Body:
    size = rng.choice((300, 50_001, 2**31 - 1))
    return _plain(
        {"replicas": size, "selector": SELECTOR, "template": template(), "minReadySeconds": rng.choice((0, 2**31 - 1))}
    )


def _stateful(rng: Random) -> Body:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "8Ei"}}},
    }
    more = {"volumeClaimTemplates": [claim], "podManagementPolicy": "Parallel", "serviceName": "a" * 63}
    more["ordinals"] = {"start": rng.choice((0, 2**31 - 1))}
    return _plain({**_workload(rng)["spec"], **more})


def _jobset(rng: Random) -> Body:
    spec = jobset()
    spec["replicatedJobs"] = [
        {**spec["replicatedJobs"][0], "name": f"a{n}", "replicas": rng.choice((1, 100, 2**31 - 1))}
        for n in range(rng.choice((1, 20)))
    ]
    spec["failurePolicy"] = {
        "maxRestarts": 2**31 - 1,
        "rules": [{"action": "RestartJobSet", "name": f"r{n}"} for n in range(20)],
    }
    return _with(rng, spec)


def _torch(rng: Random) -> Body:
    spec = kubeflow("pytorchReplicaSpecs", "Master", "Worker")
    spec["pytorchReplicaSpecs"]["Worker"]["replicas"] = rng.choice((0, 100, 50_001, 2**31 - 1))
    spec["elasticPolicy"] = {
        "minReplicas": rng.choice((0, 1)),
        "maxReplicas": 2**31 - 1,
        "maxRestarts": 2**31 - 1,
        "nProcPerNode": 2**31 - 1,
    }
    spec["runPolicy"] = {
        "backoffLimit": 2**31 - 1,
        "ttlSecondsAfterFinished": 0,
        "schedulingPolicy": {"minAvailable": 2**31 - 1},
    }
    return _with(rng, spec)


def _ray(rng: Random) -> Body:
    head = {"rayStartParams": {f"p{n}": rng.choice(JUNK)[:1000] for n in range(50)}, "template": template()}
    size = rng.choice((1, 50_001, 2**31 - 1))
    worker = {
        "rayStartParams": {},
        "template": template(),
        "minReplicas": 0,
        "replicas": size,
        "maxReplicas": 2**31 - 1,
        "numOfHosts": 1000,
    }
    return _plain(
        {
            "headGroupSpec": head,
            "workerGroupSpecs": [{**worker, "groupName": f"g{n}"} for n in range(rng.choice((1, 30)))],
        }
    )


def _claim(rng: Random) -> Body:
    selectors = [{"cel": {"expression": rng.choice(CELS)}} for _ in range(rng.choice((1, 32)))]
    exactly = {"deviceClassName": "hostile-class", "selectors": selectors, "count": rng.choice((1, 2**31, 2**63 - 1))}
    requests = [{"name": f"r{n}", "exactly": exactly} for n in range(rng.choice((1, 32)))]
    return {"metadata": {}, "spec": {"devices": {"requests": requests}}}


def _claim_template(rng: Random) -> Body:
    return {"metadata": {}, "spec": {"metadata": {"annotations": annotations(rng)}, "spec": _claim(rng)["spec"]}}


def _device_class(rng: Random) -> Body:
    return _plain({"selectors": [{"cel": {"expression": rng.choice(CELS)}} for _ in range(rng.choice((1, 32)))]})


def _slice(rng: Random) -> Body:
    attributes = {f"a{n}": {"string": "v" * 64} for n in range(32)}
    devices = [
        {"name": f"d{n}", "attributes": attributes, "capacity": {"m": {"value": rng.choice(QUANTITIES)}}}
        for n in range(128)
    ]
    pool = {
        "name": rng.choice(NAMES),
        "generation": rng.choice(INTEGERS),
        "resourceSliceCount": rng.choice((1, 2**31 - 1)),
    }
    return _plain(
        {"driver": "hostile.example", "nodeName": rng.choice(("node-0", "nowhere")), "pool": pool, "devices": devices}
    )


def _queue(rng: Random) -> Body:
    number = rng.randrange(400)
    # A child of `default` would close that queue to jobs, as the administrator who makes it must want.
    parent = rng.choice(("root", f"hostile-{number}", "nowhere"))
    amounts = {"cpu": rng.choice(QUANTITIES), "memory": rng.choice(QUANTITIES), "x/y": rng.choice(QUANTITIES)}
    more = {key: amounts for key in ("deserved", "capability") if rng.random() < 0.5}
    terms = {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["x"] * 1000}}
    weight = rng.choice((0, 1, 65_535, 2**31 - 1))
    return _with(rng, {"weight": weight, "parent": parent, "priority": rng.choice(INTEGERS), "affinity": terms, **more})


def _hypernode(rng: Random) -> Body:
    kind = rng.choice(("Node", "HyperNode"))
    selectors: tuple[Body, ...] = (
        {"regexMatch": {"pattern": rng.choice(PATTERNS)}},
        {"exactMatch": {"name": f"hostile-{rng.randrange(400)}"}},
        {"labelMatch": {}},
    )
    members = [{"type": kind, "selector": rng.choice(selectors)} for _ in range(rng.choice((1, 500)))]
    return _plain({"tier": rng.choice((0, 1, 2, 2**31 - 1)), "tierName": rng.choice(NAMES), "members": members})


def _floating(rng: Random) -> Body:
    """Sources that nobody reaches, and numbers at the bounds."""
    url = rng.choice(("http://127.0.0.1:1/", "https://[::1]:1/a?b", f"http://localhost:1/{'a' * 2000}"))
    pointer = rng.choice(("/a", "/" + "~1" * 100, "/0/" * 60))
    source = {"url": url, "amountPointer": pointer, "intervalSeconds": 5, "staleSeconds": rng.choice((10, 604_800))}
    amount = rng.choice((0, 1, 1_000_000))
    return _plain({"amount": amount, "inUse": amount} if rng.random() < 0.5 else {"source": source})


def _budget(rng: Random) -> Body:
    """Very many names, amounts at the bounds, and periods that end at once."""
    names = [f"{rng.choice(NAMES)}-{at}"[:200] for at in range(rng.choice((1, 1000)))]
    amounts = {"cpu": rng.choice(("1n", "1E", 10**15)), "money": rng.choice((0.001, "1P"))}
    period = rng.choice(({"period": "Hour"}, {"halfLife": "1m"}, {"start": "0001-01-01T00:00:00Z"}, {}))
    return _plain(
        {"namespaces": ["*"], "users": names, "amounts": amounts, "mode": rng.choice(("Hard", "Soft")), **period}
    )


def _prices(rng: Random) -> Body:
    price = {"resource": rng.choice(("cpu", "memory")), "perHour": rng.choice(("1e15", "0", "0.0000001"))}
    return _plain({"currency": "x" * 16, "prices": [price] * rng.choice((1, 200))})


def _schema(rng: Random) -> Body:
    deep: Body = {"type": "string", "pattern": rng.choice(PATTERNS), "maxLength": 10}
    for _ in range(rng.choice((1, 30))):
        deep = {"type": "object", "properties": {"a": deep, "b": {"type": "array", "items": {"type": "integer"}}}}
    rules = [{"rule": rng.choice(CELS), "message": "x"} for _ in range(rng.choice((1, 20)))]
    shape = {"type": "object", "properties": {"spec": {**deep, "x-kubernetes-validations": rules}}}
    return {"metadata": {}, **crd(shape)}


def _hooks(rng: Random) -> Body:
    conditions = [{"name": f"c{n}", "expression": rng.choice(CELS)} for n in range(rng.choice((0, 1, 64)))]
    hooks = [
        {**webhook(matchConditions=conditions), "name": f"h{n}.hostile.example"} for n in range(rng.choice((1, 10)))
    ]
    return {"metadata": {}, "webhooks": hooks}


def _map(rng: Random) -> Body:
    count, size = rng.choice(((1, 900_000), (5000, 100), (20_000, 10)))
    return {"metadata": {}, "data": {f"k{n}": "v" * size for n in range(count)}}


def _autoscaler(rng: Random) -> Body:
    metric = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": rng.choice(QUANTITIES)}},
    }
    target = {
        "apiVersion": "apps/v1",
        "kind": rng.choice(("Deployment", "HorizontalPodAutoscaler")),
        "name": f"hostile-{rng.randrange(50)}",
    }
    policy = [{"type": "Percent", "value": 2**31 - 1, "periodSeconds": 1800}] * 20
    behaviour = {"scaleUp": {"policies": policy, "stabilizationWindowSeconds": 0}}
    return _plain(
        {
            "scaleTargetRef": target,
            "minReplicas": 1,
            "maxReplicas": 2**31 - 1,
            "metrics": [metric] * 100,
            "behavior": behaviour,
        }
    )


def _command(rng: Random) -> Body:
    kind = rng.choice(("Job", "Queue"))
    api = "batch.volcano.sh/v1alpha1" if kind == "Job" else "scheduling.volcano.sh/v1beta1"
    target = {"apiVersion": api, "kind": kind, "name": rng.choice(("default", "hostile-1")), "uid": "x"}
    return {"metadata": {"ownerReferences": [{**target, "controller": True}]}, "action": "CloseQueue", "target": target}


def _node(rng: Random) -> Body:
    taints = [
        {"key": f"k{n}", "value": "v", "effect": rng.choice(("NoSchedule", "NoExecute"))}
        for n in range(rng.choice((1, 500)))
    ]
    return {
        "metadata": {"annotations": {"volcano.sh/node-topology": json.dumps([[]] * 100), **annotations(rng)}},
        "spec": {"taints": taints},
    }


_KINDS: dict[str, dict[str, tuple[Scene, ...]]] = {
    "": {
        "Pod": (_huge_requests, _terms, _spread, _gated, _volumes),
        "ReplicationController": (
            lambda rng: _plain(
                {"replicas": rng.choice((500, 2**31 - 1)), "selector": {"app": "hostile"}, "template": template()}
            ),
        ),
        "ConfigMap": (_map,),
        "Node": (_node,),
    },
    "apps": {"Deployment": (_workload,), "ReplicaSet": (_workload,), "StatefulSet": (_stateful,)},
    "batch": {"Job": (_batch_job,), "CronJob": (_batch_cron,)},
    "autoscaling": {"HorizontalPodAutoscaler": (_autoscaler,)},
    "batch.volcano.sh": {"Job": (_job, _job_of_any_size, _job_plugins, _fast_failing, _networked), "CronJob": (_cron,)},
    "flow.volcano.sh": {"JobTemplate": (_job, _job_plugins, _networked), "JobFlow": (_flow,)},
    "training.volcano.sh": {"HyperJob": (_hyper_job,)},
    "jobset.x-k8s.io": {"JobSet": (_jobset,)},
    "kubeflow.org": {"PyTorchJob": (_torch,)},
    "ray.io": {"RayCluster": (_ray,)},
    "resource.k8s.io": {
        "ResourceClaim": (_claim,),
        "ResourceClaimTemplate": (_claim_template,),
        "DeviceClass": (_device_class,),
        "ResourceSlice": (_slice,),
    },
    "scheduling.volcano.sh": {"Queue": (_queue,)},
    "topology.volcano.sh": {"HyperNode": (_hypernode,)},
    "quota.unisono.io": {"FloatingResource": (_floating,), "Budget": (_budget,), "PriceList": (_prices,)},
    "bus.volcano.sh": {"Command": (_command,)},
    "apiextensions.k8s.io": {"CustomResourceDefinition": (_schema,)},
    "admissionregistration.k8s.io": {
        "ValidatingWebhookConfiguration": (_hooks,),
        "MutatingWebhookConfiguration": (_hooks,),
    },
}
SCENES: dict[tuple[str, str], tuple[Scene, ...]] = {
    (group, kind): scenes for group, kinds in _KINDS.items() for kind, scenes in kinds.items()
}
