"""Reading what users write, and what run adds to it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from unisono.cli.manifests import read
from unisono.cli.running.submitting import is_workload, mark_working_directory, nothing_to_run
from unisono.errors import ConfigError

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n"
JOB = """
apiVersion: batch.volcano.sh/v1beta1
kind: Job
metadata: {name: j}
spec:
  tasks:
    - {name: t, replicas: 1, template: {spec: {containers: [{name: c, image: i}]}}}
    - {name: u, template: {metadata: {annotations: {unisono.io/working-directory: /own}}, spec: {containers: []}}}
"""


def written(folder: Path, text: str, name: str = "x.yaml") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_documents_lists_and_folders_are_read_in_order(tmp_path: Path) -> None:
    written(tmp_path, f"{POD}---\n---\n# nothing\n---\n{JOB}", "b.yaml")
    written(
        tmp_path, '{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Queue"}]}', "a.json"
    )
    written(tmp_path, "not a manifest", "notes.txt")
    assert [item.kind for item in read([str(tmp_path)])] == ["Queue", "Pod", "Job"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", r"x\.yaml:\d+"),
        ("kind: Pod\n", "has no apiVersion"),
        ("apiVersion: v1\n", "has no kind"),
        ("- 3\n", "no Kubernetes object"),
        ("apiVersion: v1\nkind: Pod\nmetadata: 3\n", "metadata must be a mapping"),
        ("", "there is no object"),
    ],
)
def test_what_is_no_manifest_is_refused_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read([written(tmp_path, text)])


def typed(data: bytes, errors: str = "strict") -> io.TextIOWrapper:
    """Standard input as a locale makes it: in ``C`` with ``surrogateescape``."""
    return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", errors=errors)


def test_standard_input_without_objects_is_named_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", typed(b"# nothing yet\n"))
    with pytest.raises(ConfigError, match="there is no object in standard input"):
        read(["-"])


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_standard_input_that_is_no_text_is_told_in_every_locale(monkeypatch: pytest.MonkeyPatch, errors: str) -> None:
    monkeypatch.setattr("sys.stdin", typed(b'kind: ConfigMap\ndata: {a: "\xe4"}\n', errors))
    with pytest.raises(ConfigError, match="standard input is no text in UTF-8"):
        read(["-"])


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        read(["/nowhere/x.yaml"])


def test_a_file_that_is_no_text_is_told_in_plain_words(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_bytes(b"\x1f\x8b\xff\xfe")
    with pytest.raises(ConfigError, match=r"x\.yaml is no text in UTF-8") as caught:
        read([str(tmp_path / "x.yaml")])
    assert "codec" not in str(caught.value)


@pytest.mark.parametrize(
    ("api_version", "kind", "expected"),
    [
        ("batch.volcano.sh/v1alpha1", "Jobb", "is Job meant?"),
        ("batch.volcano.sh/v1alpha1", "job", "is Job meant?"),
        ("volcano.sh/v1alpha1", "Job", "is its apiVersion batch.volcano.sh/v1alpha1 or batch/v1?"),
        ("kubeflow.org/v1", "PytorchJob", "is PyTorchJob meant?"),
        ("flow.volcano.sh/v1alpha1", "JobTemplate", "only JobTemplate: use 'unisono apply'"),
        ("scheduling.volcano.sh/v1beta1", "Queue", "only Queue: use 'unisono apply'"),
    ],
)
def test_what_cannot_be_run_is_told_with_what_may_be_meant(
    tmp_path: Path, api_version: str, kind: str, expected: str
) -> None:
    text = nothing_to_run(read([written(tmp_path, f"apiVersion: {api_version}\nkind: {kind}\n")]))
    assert expected in text and kind in text


def test_jobs_and_pods_are_followed_and_nothing_else(tmp_path: Path) -> None:
    queue = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: q}\n"
    assert [is_workload(item) for item in read([written(tmp_path, f"{POD}---\n{JOB}\n---\n{queue}")])] == [
        True,
        True,
        False,
    ]


def test_every_pod_template_learns_the_folder_unless_it_names_one(tmp_path: Path) -> None:
    pod, job = read([written(tmp_path, f"{POD}---\n{JOB}")])
    for manifest in (pod, job):
        mark_working_directory(manifest)
    key = "unisono.io/working-directory"
    assert pod.metadata["annotations"][key] == str(tmp_path)
    first, second = (task["template"]["metadata"]["annotations"][key] for task in job.value["spec"]["tasks"])
    assert (first, second) == (str(tmp_path), "/own")
