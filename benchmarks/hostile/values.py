"""Extreme values for a field, by its schema and its name."""

from __future__ import annotations

from random import Random
from typing import Any

Schema = dict[str, Any]

INTEGERS = (0, 1, 2, -1, 3, 1000, 49_999, 50_001, 2**31 - 1, 2**31, 2**53, 2**63 - 1)
QUANTITIES = (
    *("0", "1", "1n", "1m", "999999999n", "0.000000001", "9223372036854775807", "8Ei", "7Ei", "9e18", "1e15", "1e-9"),
    *("100m", "64", "100Gi", "-1", "1E", "99999999999999", "1000000", "3.999999999", "0Ki", "18446744073709551616"),
)
TIMES = (
    *("1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2038-01-19T03:14:08Z"),
    *("2024-02-29T23:59:60Z", "2024-02-29T12:00:00+14:00", "2026-01-01T00:00:00.123456789Z"),
)
DURATIONS = ("0s", "1ns", "2562047h47m16s", "-1h", "1h1h1h", "9" * 30 + "s", "P1D", "0.5m")
TEXTS = (
    *(
        "x",
        "",
        "é" * 63,
        "日本語",
        "\u202ereversed",
        "\u0000",
        "🧨" * 200,
        "a" * 253,
        "z" * 63,
        "y" * 60_000,
        "0",
        "-",
        ".",
    ),
    *(
        "*",
        "$(FOO)",
        "$" * 1000,
        "{{.Name}}",
        "%s%s%n",
        "\n" * 500,
        "[" * 5000,
        "../../etc/passwd",
        "true",
        "null",
        "NaN",
    ),
)
NAMES = (
    "x",
    "a" * 63,
    "a" * 253,
    "x.y.z",
    "0",
    "default",
    "does-not-exist",
    "kubernetes",
    "a-" * 31 + "a",
    "default-0",
)
CRONS = (
    "* * * * *", "*/1 * * * *", "0 0 31 2 *", "59 23 29 2 *", "@every 1s", "TZ=Pacific/Kiritimati * * * * *", "@yearly",
)  # fmt: skip
PATTERNS = (
    "(a+)+$",
    ".*" * 200,
    "(x{1,9}){1,9}",
    "[[:alpha:]]*",
    "^(?:a|a)*$",
    "\\p{Greek}{1,500}",
    "x{1000}",
    "node.*",
    "",
)
CELS = (
    "true",
    "1/0 == 1",
    "has(device.attributes)",
    "(" * 60 + "true" + ")" * 60,
    "!" * 100 + "true",
    " && ".join(["true"] * 400),
    "[1,2,3].all(a, [1,2,3].all(b, [1,2,3].all(c, a+b+c > 0)))",
    "'" + "a" * 5000 + "'.matches('(a+)+$')",
    "self == self",
    "size(self) > 0",
    "device.attributes['x'].y.isGreaterThan(quantity('1e999'))",
)
JUNK = (
    *(
        "",
        "null",
        "{}",
        "[]",
        "NaN",
        "-1",
        "1e309",
        "99999999999999999999",
        "true",
        "x" * 100_000,
        "[" * 20_000,
        '{"a":' * 20_000,
    ),
    *(
        '{"a": [1, 2, {"b": null}]}',
        "a=b;c=d",
        "0-4294967295",
        "1,2,3," * 3000,
        "é" * 500,
        "\ud7ff",
        "/" * 300,
        "5m",
        "-5m",
        "0",
    ),
    *("Infinity", "2026-01-01T00:00:00Z", "root/a/b/c" * 50, "1/1/1", "none", "restricted", "9223372036854775807"),
)
# Where only some words count, random text would never pass.
WORDS: dict[str, tuple[str, ...]] = {
    "restartPolicy": ("Always", "OnFailure", "Never", "ExitCode"),
    "operator": ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal"),
    "effect": ("NoSchedule", "NoExecute", "PreferNoSchedule"),
    "whenUnsatisfiable": ("DoNotSchedule", "ScheduleAnyway"),
    "topologyKey": ("kubernetes.io/hostname", "zone", "a/" + "b" * 63, "does.not/exist"),
    "action": (
        "AbortJob",
        "RestartJob",
        "RestartTask",
        "TerminateJob",
        "CompleteJob",
        "RestartPod",
        "CloseQueue",
        "OpenQueue",
    ),
    "event": ("PodFailed", "PodEvicted", "TaskCompleted", "*", "Unknown", "PodPending", "OutOfSync", "CommandIssued"),
    "queue": ("default", "root", "does-not-exist", "hostile-queue", ""),
    "parent": ("root", "hostile-queue", "does-not-exist"),
    "schedulerName": ("volcano", "unisono", "default-scheduler", "x"),
    "kind": ("Job", "Pod", "Node", "Queue", "Deployment", "StatefulSet", "Nothing", "TrainJob", "PodGroup"),
    "apiVersion": ("v1", "apps/v1", "batch/v1", "batch.volcano.sh/v1alpha1", "x.y/z"),
    "mode": ("hard", "soft"),
    "imagePullPolicy": ("Always", "Never", "IfNotPresent"),
    "type": (
        "ClusterIP",
        "NodePort",
        "LoadBalancer",
        "ExternalName",
        "RollingUpdate",
        "Recreate",
        "OnDelete",
        "Resource",
        "Pods",
        "Pod",
    ),
    "protocol": ("TCP", "UDP", "SCTP"),
    "podManagementPolicy": ("OrderedReady", "Parallel"),
    "completionMode": ("Indexed", "NonIndexed"),
    "concurrencyPolicy": ("Allow", "Forbid", "Replace"),
    "priorityClassName": ("does-not-exist", "system-node-critical", "hostile-priority", "system-cluster-critical"),
    "accessModes": ("ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"),
    "nodeName": ("node-0", "does-not-exist", "a" * 253),
    "preemptionPolicy": ("Never", "PreemptLowerPriority"),
    "dnsPolicy": ("Default", "None", "ClusterFirst"),
    "jobRetainPolicy": ("retain", "delete"),
    "cleanPodPolicy": ("All", "None", "Running"),
    "scope": ("Namespaced", "Cluster", "*"),
    "resource": ("cpu", "memory", "nvidia.com/gpu", "pods", "x/y"),
    "resourceName": ("cpu", "memory"),
    "schedule": CRONS,
    "regexMatch": PATTERNS,
    "pattern": PATTERNS,
    "expression": CELS,
    "rule": CELS,
    "timeZone": ("Etc/UTC", "Pacific/Kiritimati", "Nowhere/Nothing", "../../etc/passwd"),
}


def text(rng: Random, name: str, schema: Schema) -> str:
    """A string for the field ``name``."""
    if schema.get("enum"):
        return str(rng.choice(schema["enum"]))
    if schema.get("format") == "date-time":
        return rng.choice(TIMES)
    if name in WORDS and rng.random() < 0.9:
        return rng.choice(WORDS[name])
    lower = name.lower()
    if lower.endswith(("duration", "timeout", "seconds", "period")):
        return rng.choice(DURATIONS)
    if lower.endswith("name") or lower in ("name", "target", "serviceaccount", "hostname", "subdomain", "dependson"):
        return rng.choice(NAMES)
    return rng.choice(TEXTS if rng.random() < 0.5 else NAMES)


def integer(rng: Random, schema: Schema) -> int:
    """A whole number, at or beyond the bounds of the schema."""
    bounds = [schema[key] for key in ("minimum", "maximum") if isinstance(schema.get(key), int)]
    return int(rng.choice((*INTEGERS, *bounds)))


def deep(rng: Random) -> Any:
    """A value of many levels."""
    value: Any = rng.choice((None, 1, "x"))
    for _ in range(rng.choice((5, 50, 150))):
        value = {"a": value} if rng.random() < 0.5 else [value]
    return value
