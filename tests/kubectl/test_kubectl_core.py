"""kubectl with core kinds: every verb a batch user types."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
import yaml

from support.kubectl import PATIENCE, Plane
from support.watching import seen
from unisono.api.kinds import NODES, PODS

pytestmark = pytest.mark.kubectl

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1", "labels": {"node-role.kubernetes.io/worker": ""}},
}


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "env": [{"name": "A", "value": "1"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [container], **spec},
    }


async def start(plane: Plane, name: str = "p", phase: str = "Running") -> None:
    """Play the node agent: the pod's container runs, or has ended."""
    running = phase == "Running"
    state = {"running": {"startedAt": "2026-11-20T17:00:00Z"}}
    if not running:
        state = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    ready = "True" if running else "False"
    status = {
        "phase": phase,
        "podIP": "127.0.0.9",
        "podIPs": [{"ip": "127.0.0.9"}],
        "conditions": [{"type": "Ready", "status": ready}],
        "containerStatuses": [
            {"name": "main", "ready": running, "restartCount": 0, "image": "x", "imageID": "", "state": state}
        ],
    }
    await plane.client.patch(PODS, name, {"status": status}, namespace="default", subresource="status")


async def placed(plane: Plane, name: str = "p") -> None:
    await plane.apply(NODE, pod(name, nodeName="n1"))
    await start(plane, name)


def table(text: str) -> list[list[str]]:
    return [re.split(r"\s{2,}", line.strip()) for line in text.strip().splitlines()]


async def test_version_and_resources(plane: Plane) -> None:
    version = json.loads(await plane.ok("version", "-o", "json"))
    assert version["serverVersion"]["gitVersion"].startswith("v1.36.0+unisono")
    lines = await plane.ok("api-resources", "--no-headers")
    assert re.search(r"^pods +po +v1 +true +Pod$", lines, re.MULTILINE)
    assert re.search(r"^jobs +vcjob,vj,vjob +batch.volcano.sh/v1alpha1 +true +Job$", lines, re.MULTILINE)
    assert re.search(r"^queues +q,queue-v1beta1 +scheduling.volcano.sh/v1beta1 +false +Queue$", lines, re.MULTILINE)
    assert "batch.volcano.sh/v1beta1" in await plane.ok("api-versions")
    assert await plane.ok("get", "--raw", "/readyz") == "ok"


async def test_get_in_all_forms(plane: Plane) -> None:
    await placed(plane)
    rows = table(await plane.ok("get", "pods"))
    assert rows == [["NAME", "READY", "STATUS", "RESTARTS", "AGE"], ["p", "1/1", "Running", "0", rows[1][-1]]]
    wide = table(await plane.ok("get", "po", "p", "-o", "wide"))
    assert wide[0][5:] == ["IP", "NODE", "NOMINATED NODE", "READINESS GATES"]
    assert wide[1][5:] == ["127.0.0.9", "n1", "<none>", "<none>"]
    assert await plane.ok("get", "pods", "-o", "name") == "pod/p\n"
    assert await plane.ok("get", "pod", "p", "-o", "jsonpath={.status.phase}") == "Running"
    assert yaml.safe_load(await plane.ok("get", "pods", "-o", "yaml"))["kind"] == "List"
    assert table(await plane.ok("get", "pods", "-A", "--show-labels"))[1][-1] == "app=web"
    assert await plane.ok("get", "pods", "--no-headers", "--sort-by=.metadata.name")
    assert "web" in await plane.ok("get", "pods", "-L", "app")
    assert "pod/p" in await plane.ok("get", "all")
    assert "pod/p" in await plane.ok("get", "pods,nodes,cm")
    assert "n1" in await plane.ok("get", "nodes", "-o", "custom-columns=N:.metadata.name")


async def test_selectors(plane: Plane) -> None:
    await plane.apply(NODE, pod("a"), pod("b", nodeName="n1"))
    assert await plane.ok("get", "pods", "-o", "name", "-l", "app in (web),app!=x") == "pod/a\npod/b\n"
    assert await plane.ok("get", "pods", "-o", "name", "--field-selector", "spec.nodeName=n1") == "pod/b\n"
    assert await plane.ok("get", "pods", "-o", "name", "--field-selector", "spec.nodeName!=n1") == "pod/a\n"
    nothing = await plane.run("get", "pods", "-l", "app=none")
    assert nothing.err == "No resources found in default namespace.\n"
    assert "field label not supported: spec.foo" in await plane.fails("get", "pods", "--field-selector", "spec.foo=1")
    assert "unable to parse requirement" in await plane.fails("get", "pods", "-l", "a in (b")


async def test_pages_are_joined(plane: Plane) -> None:
    await plane.apply(*({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{i}"}} for i in range(5)))
    lines = await plane.ok("get", "cm", "--chunk-size=2", "-o", "name")
    assert lines.split() == [*(f"configmap/c{i}" for i in range(5)), "configmap/kube-root-ca.crt"]


async def test_apply_changes_only_what_changed(plane: Plane) -> None:
    assert await plane.apply(pod()) == "pod/p created\n"
    before = await plane.ok("get", "pod", "p", "-o", "jsonpath={.metadata.resourceVersion}")
    unchanged = await plane.run("apply", "-v=6", "-f", "-", stdin=yaml.safe_dump(pod()))
    assert "pod/p unchanged" in unchanged.out
    assert "PATCH" not in unchanged.err
    assert await plane.ok("get", "pod", "p", "-o", "jsonpath={.metadata.resourceVersion}") == before
    changed = pod()
    changed["metadata"]["labels"] = {"app": "other"}
    changed["spec"]["containers"][0]["image"] = "busybox:2"
    assert await plane.apply(changed) == "pod/p configured\n"
    found = json.loads(await plane.ok("get", "pod", "p", "-o", "json"))
    assert found["metadata"]["labels"] == {"app": "other"}
    assert found["spec"]["containers"][0]["image"] == "busybox:2"
    assert found["spec"]["containers"][0]["env"] == [{"name": "A", "value": "1"}]


async def test_apply_prints_no_warnings(plane: Plane) -> None:
    for _ in range(2):
        done = await plane.run("apply", "-f", "-", stdin=yaml.safe_dump(pod()))
        assert (done.code, done.err) == (0, "")


async def test_create_in_all_forms(plane: Plane) -> None:
    await plane.ok("create", "ns", "team")
    await plane.ok("create", "configmap", "c", "-n", "team", "--from-literal=a=b")
    await plane.ok("create", "secret", "generic", "s", "-n", "team", "--from-literal=p=word")
    await plane.ok("create", "serviceaccount", "bob", "-n", "team")
    await plane.ok("create", "priorityclass", "high", "--value=1000", "--description=first")
    assert await plane.ok("get", "secret", "s", "-n", "team", "-o", "jsonpath={.data.p}") == "d29yZA=="
    assert table(await plane.ok("get", "cm", "c", "-n", "team"))[1][:2] == ["c", "1"]
    assert table(await plane.ok("get", "pc", "high"))[1][1:3] == ["1000", "false"]
    text = yaml.safe_dump(pod())
    assert await plane.ok("create", "-f", "-", stdin=text) == "pod/p created\n"
    assert 'pods "p" already exists' in await plane.fails("create", "-f", "-", stdin=text)
    assert "(server dry run)" in await plane.ok("create", "cm", "dry", "--dry-run=server")
    assert 'configmaps "dry" not found' in await plane.fails("get", "cm", "dry")
    assert "pod/quick created" in await plane.ok("run", "quick", "--image=busybox")


async def test_patches(plane: Plane) -> None:
    await plane.apply(pod())
    await plane.ok("patch", "pod", "p", "-p", '{"metadata":{"labels":{"one":"1"}}}')
    await plane.ok("patch", "pod", "p", "--type=merge", "-p", '{"metadata":{"labels":{"app":null}}}')
    await plane.ok("patch", "pod", "p", "--type=json", "-p", '[{"op":"add","path":"/metadata/labels/two","value":"2"}]')
    await plane.ok(
        "patch", "pod", "p", "--type=strategic", "-p", '{"spec":{"containers":[{"name":"main","image":"busybox:3"}]}}'
    )
    await plane.ok("label", "pod", "p", "three=3")
    await plane.ok("annotate", "pod", "p", "note=hello world")
    await plane.ok("set", "image", "pod/p", "main=busybox:4")
    found = json.loads(await plane.ok("get", "pod", "p", "-o", "json"))
    assert found["metadata"]["labels"] == {"one": "1", "two": "2", "three": "3"}
    assert found["metadata"]["annotations"]["note"] == "hello world"
    assert [c["image"] for c in found["spec"]["containers"]] == ["busybox:4"]
    assert "no change" in await plane.ok("patch", "pod", "p", "-p", '{"metadata":{"labels":{"one":"1"}}}')
    assert "not labeled" in await plane.ok("label", "pod", "p", "three=3")
    refused = await plane.fails("patch", "pod", "p", "-p", '{"spec":{"nodeName":"elsewhere"}}')
    assert "spec" in refused
    replaced = json.loads(await plane.ok("get", "pod", "p", "-o", "json"))
    replaced["metadata"]["labels"] = {"new": "1"}
    assert await plane.ok("replace", "-f", "-", stdin=json.dumps(replaced)) == "pod/p replaced\n"


async def test_stale_replace_conflicts(plane: Plane) -> None:
    await plane.apply(pod())
    stale = await plane.ok("get", "pod", "p", "-o", "json")
    await plane.ok("label", "pod", "p", "x=y")
    assert "the object has been modified" in await plane.fails("replace", "-f", "-", stdin=stale)


async def test_describe(plane: Plane) -> None:
    await placed(plane)
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "n1", "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": "n1", "renewTime": "2026-11-20T17:00:00.000000Z"},
    }
    uid = await plane.ok("get", "pod", "p", "-o", "jsonpath={.metadata.uid}")
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "p.1", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default", "uid": uid},
        "reason": "Scheduled",
        "message": "assigned to n1",
        "type": "Normal",
        "source": {"component": "volcano"},
        "firstTimestamp": "2026-11-20T17:00:00Z",
        "lastTimestamp": "2026-11-20T17:00:00Z",
    }
    await plane.apply(lease, event)
    text = await plane.ok("describe", "pod", "p")
    assert re.search(r"Node: +n1/", text)
    assert re.search(r"Normal +Scheduled +.*volcano +assigned to n1", text)
    node = await plane.ok("describe", "node", "n1")
    assert re.search(r"HolderIdentity: +n1", node)
    assert re.search(r"default +p +0 \(0%\)|default +p ", node)
    assert "assigned to n1" in await plane.ok("events")
    assert "assigned to n1" in await plane.ok("get", "events")


async def test_logs(plane: Plane) -> None:
    await placed(plane)
    assert await plane.ok("logs", "p") == "p/main line 0\np/main line 1\np/main line 2\n"
    assert await plane.ok("logs", "p", "--tail=1", "-c", "main") == "p/main line 2\n"
    assert (await plane.ok("logs", "-f", "p")).endswith("last line\n")
    assert "p/main line 2" in await plane.ok("logs", "-l", "app=web", "--prefix")
    assert "container nope is not valid for pod p" in await plane.fails("logs", "p", "-c", "nope")
    assert 'previous terminated container "main" in pod "p" not found' in await plane.fails("logs", "p", "-p")
    await plane.apply(pod("waiting", nodeName="n1"))
    assert 'container "main" in pod "waiting" is waiting to start' in await plane.fails("logs", "waiting")


async def test_wait(plane: Plane) -> None:
    await placed(plane)
    assert "condition met" in await plane.ok("wait", "pod/p", "--for=condition=Ready", "--timeout=300s")
    async with plane.reading("wait", "pod/p", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=300s") as out:
        await plane.watched()
        await start(plane, "p", "Succeeded")
        assert await out.readline() == b"pod/p condition met\n"
    assert "timed out" in await plane.fails("wait", "pod/p", "--for=condition=Ready", "--timeout=1s")
    async with plane.reading("wait", "pod/p", "--for=delete", "--timeout=300s") as out:
        await plane.watched()
        await plane.client.delete(PODS, "p", "default", grace_seconds=0)
        assert await out.readline() == b"pod/p condition met\n"


async def test_watch_shows_changes_as_rows(plane: Plane) -> None:
    await plane.apply(NODE, pod("p", nodeName="n1"))
    async with plane.reading("get", "pods", "-w") as out:
        assert (await out.readline()).split() == b"NAME READY STATUS RESTARTS AGE".split()
        assert (await out.readline()).split()[:3] == [b"p", b"0/1", b"Pending"]
        await start(plane)
        assert (await out.readline()).split()[:3] == [b"p", b"1/1", b"Running"]
        await plane.client.delete(PODS, "p", "default")
        assert (await out.readline()).split()[2] == b"Terminating"
    async with plane.reading("get", "pod", "p", "-w", "-o", "name") as out:
        assert await out.readline() == b"pod/p\n"


async def test_delete(plane: Plane) -> None:
    await plane.apply(pod("a"), pod("b"), pod("c"))
    assert await plane.ok("delete", "pod", "a") == 'pod "a" deleted\n'
    assert "force deleted" in await plane.ok("delete", "pod", "b", "--force", "--grace-period=0")
    assert 'pod "c" deleted' in await plane.ok("delete", "pods", "-l", "app=web")
    assert 'pods "a" not found' in await plane.fails("delete", "pod", "a")
    await plane.ok("delete", "pod", "a", "--ignore-not-found")
    await plane.ok("create", "ns", "team")
    await plane.ok("create", "cm", "c", "-n", "team")
    assert 'namespace "team" deleted' in await plane.ok("delete", "ns", "team")
    assert 'namespaces "team" not found' in await plane.fails("get", "ns", "team")


async def test_graceful_delete_waits_for_the_agent(plane: Plane) -> None:
    await placed(plane)
    async with plane.reading("delete", "pod", "p") as out:
        assert await out.readline() == b'pod "p" deleted\n'
        assert table(await plane.ok("get", "pods"))[1][2] == "Terminating"
        await plane.client.delete(PODS, "p", "default", grace_seconds=0)
        assert await out.read() == b""


async def test_nodes(plane: Plane) -> None:
    await plane.apply(NODE)
    await plane.client.patch(
        NODES, "n1", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, subresource="status"
    )
    assert table(await plane.ok("get", "nodes"))[1][:3] == ["n1", "Ready", "worker"]
    await plane.ok("cordon", "n1")
    assert table(await plane.ok("get", "nodes"))[1][1] == "Ready,SchedulingDisabled"
    await plane.ok("uncordon", "n1")
    assert "node/n1 tainted" in await plane.ok("taint", "node", "n1", "gpu=yes:NoSchedule")
    assert await plane.ok("get", "node", "n1", "-o", "jsonpath={.spec.taints[0].key}") == "gpu"
    assert "untainted" in await plane.ok("taint", "node", "n1", "gpu-")
    await plane.apply(pod("p", nodeName="n1"))
    draining = asyncio.create_task(plane.run("drain", "n1", "--force", "--timeout=300s"))
    async with asyncio.timeout(PATIENCE):
        await seen(plane.client, PODS, "p", "default", lambda pod: pod.metadata.deletion_timestamp)
    assert table(await plane.ok("get", "pods"))[1][2] == "Terminating"
    await plane.client.delete(PODS, "p", "default", grace_seconds=0)
    drained = await draining
    assert "evicting pod default/p" in drained.out + drained.err
    assert drained.code == 0
    assert "node/n1 drained" in drained.out


ERRORS = [
    (("get", "pod", "nope"), "", 'Error from server (NotFound): pods "nope" not found\n'),
    (("get", "things"), "", 'error: the server doesn\'t have a resource type "things"\n'),
    (
        ("create", "-f", "-"),
        yaml.safe_dump({**pod(), "metadata": {"name": "Bad_Name"}}),
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters",
    ),
    (
        ("create", "-f", "-"),
        yaml.safe_dump(pod(bogus=1)),
        'strict decoding error: unknown field "spec.bogus"',
    ),
    (
        ("create", "-f", "-", "-n", "nowhere"),
        yaml.safe_dump(pod()),
        'Error from server (NotFound): error when creating "STDIN": namespaces "nowhere" not found\n',
    ),
    (("create", "-f", "-"), yaml.safe_dump({"apiVersion": "none.io/v1", "kind": "No", "metadata": {"name": "x"}}),
     'no matches for kind "No" in version "none.io/v1"'),
    (("create", "-f", "-"), yaml.safe_dump(pod(priorityClassName="none")), "no PriorityClass with name none was found"),
    (("patch", "pod", "nope", "-p", "{}"), "", 'pods "nope" not found'),
]  # fmt: skip


@pytest.mark.parametrize(("words", "stdin", "text"), ERRORS, ids=range(len(ERRORS)))
async def test_error_texts(plane: Plane, words: tuple[str, ...], stdin: str, text: str) -> None:
    assert text in await plane.fails(*words, stdin=stdin)


async def test_warnings_are_shown(plane: Plane) -> None:
    done = await plane.run("create", "--validate=warn", "-f", "-", stdin=yaml.safe_dump(pod(bogus=1)))
    assert done.out == "pod/p created\n"
    assert 'Warning: unknown field "spec.bogus"' in done.err


async def test_explain(plane: Plane) -> None:
    assert "VERSION:    v1" in await plane.ok("explain", "pod")
    assert "nodeName" in await plane.ok("explain", "pod.spec")
    assert "<[]Object>" in await plane.ok("explain", "pods.spec.containers")
    assert 'field "bogus" does not exist' in await plane.fails("explain", "pod.spec.bogus")
