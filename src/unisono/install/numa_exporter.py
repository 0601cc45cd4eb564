"""The DaemonSet that describes the CPUs of every node, in a namespace of its own, for each node's own object alone."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from unisono.api.groups.admission_registration import VALIDATING_WEBHOOKS
from unisono.api.keys import APP_PART_OF, OS
from unisono.api.kinds import NODES, NUMATOPOLOGIES
from unisono.install.rights import Right, rules
from unisono.install.workloads import HARDENED, InstallOptions, labels, probe, selector

NAME = "unisono-numa-exporter"
COMPONENT = "numa-exporter"
STATUS_PORT = 8085
NUMA_EXPORTER = (
    Right(NODES.group, NODES.plural, ("get",)),
    Right(NUMATOPOLOGIES.group, NUMATOPOLOGIES.plural, ("get", "create", "patch")),
)
_POLICY = "numatopologies-of-own-nodes.unisono"
_RBAC = "rbac.authorization.k8s.io"
_HOST, _CONFIG = "/host/kubelet", "/host/config"
_NODE_OF_TOKEN = "authentication.kubernetes.io/node-name"  # noqa: S105  # nosec B105: a key of what a token says, no secret


def _place(options: InstallOptions) -> str:
    """Where its pods run: the namespace of the other components lets no pod see files of a node."""
    return f"{options.namespace}-nodes"


def numa_exporter(options: InstallOptions) -> list[dict[str, Any]]:
    """Account and rights, the policy that holds each pod to its own node, and the DaemonSet."""
    place = _place(options)

    def made(api: str, kind: str, *, namespaced: bool = False, name: str = NAME, **content: Any) -> dict[str, Any]:
        where = {"namespace": place} if namespaced else {}
        return {
            "apiVersion": api,
            "kind": kind,
            "metadata": {"name": name, **where, "labels": labels(COMPONENT)},
            **content,
        }

    ref = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": NAME}
    subjects = [{"kind": "ServiceAccount", "name": NAME, "namespace": place}]
    admission = VALIDATING_WEBHOOKS.api_version
    binding = {"policyName": _POLICY, "validationActions": ["Deny"]}
    return [
        made("v1", "ServiceAccount", namespaced=True),
        made(f"{_RBAC}/v1", "ClusterRole", rules=rules(NUMA_EXPORTER)),
        made(f"{_RBAC}/v1", "ClusterRoleBinding", roleRef=ref, subjects=subjects),
        made(admission, "ValidatingAdmissionPolicy", name=_POLICY, spec=own_node(place)),
        made(admission, "ValidatingAdmissionPolicyBinding", name=_POLICY, spec=binding),
        made("apps/v1", "DaemonSet", namespaced=True, spec=_daemons(options)),
    ]


def own_node(place: str) -> dict[str, Any]:
    """The spec of the policy: a role cannot say that a pod may write the object of its own node alone."""
    extra = "request.userInfo.extra"
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [NUMATOPOLOGIES.group],
                    "apiVersions": [NUMATOPOLOGIES.version],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": [NUMATOPOLOGIES.plural],
                }
            ]
        },
        "matchConditions": [
            {
                "name": "written-by-the-exporter",
                "expression": f"request.userInfo.username == 'system:serviceaccount:{place}:{NAME}'",
            }
        ],
        "validations": [
            {
                "expression": f"has({extra}) && '{_NODE_OF_TOKEN}' in {extra} && "
                f"object.metadata.name in {extra}['{_NODE_OF_TOKEN}']",
                "message": "an exporter may write the Numatopology of its own node only",
                "reason": "Forbidden",
            }
        ],
    }


def node_namespace(options: InstallOptions) -> dict[str, Any]:
    """The namespace of the pods."""
    # Files of a node are for privileged namespaces only, also where they are only read.
    level = {f"pod-security.kubernetes.io/{mode}": "privileged" for mode in ("enforce", "audit", "warn")}
    meta = {"name": _place(options), "labels": {APP_PART_OF: "unisono", **level}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}


def arguments(options: InstallOptions) -> list[str]:
    """The command line."""
    directory, config = PurePosixPath(options.kubelet_dir), PurePosixPath(options.kubelet_config)
    seen = f"{_HOST if config.parent == directory else _CONFIG}/{config.name}"
    return [COMPONENT, f"--listen=:{STATUS_PORT}", f"--kubelet-dir={_HOST}", f"--kubelet-config={seen}"]


def _daemons(options: InstallOptions) -> dict[str, Any]:
    return {
        "selector": {"matchLabels": selector(COMPONENT)},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
        "template": {"metadata": {"labels": labels(COMPONENT)}, "spec": _pod(options)},
    }


def _pod(options: InstallOptions) -> dict[str, Any]:
    directory, config = PurePosixPath(options.kubelet_dir), PurePosixPath(options.kubelet_config)
    # Folders, not files: the kubelet replaces its files, and a mounted file would stay the old one.
    folders = {"kubelet": (str(directory), _HOST)}
    if config.parent != directory:
        folders["config"] = (str(config.parent), _CONFIG)
    return {
        "serviceAccountName": NAME,
        "priorityClassName": "system-node-critical",
        "nodeSelector": {OS: "linux"},
        "tolerations": [{"operator": "Exists"}],
        # The kubelet's files are root's; without any capability, root reads those and no other user's.
        "securityContext": {"runAsUser": 0, "runAsGroup": 0, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": COMPONENT,
                "image": options.image,
                "args": arguments(options),
                "env": [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
                "ports": [{"name": "metrics", "containerPort": STATUS_PORT}],
                "livenessProbe": probe("/livez", failures=6),
                "readinessProbe": probe("/readyz", failures=3),
                "startupProbe": probe("/livez", failures=60, period=2),
                "resources": {"requests": {"cpu": "20m", "memory": "96Mi"}},
                "securityContext": HARDENED,
                "volumeMounts": [
                    {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108  # nosec B108 # the pod's own volume
                    *({"name": name, "mountPath": to, "readOnly": True} for name, (_, to) in folders.items()),
                ],
            }
        ],
        "volumes": [
            {"name": "tmp", "emptyDir": {}},
            *({"name": name, "hostPath": {"path": of, "type": "Directory"}} for name, (of, _) in folders.items()),
        ],
    }
