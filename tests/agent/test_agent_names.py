"""Hosts files, addresses and names in the environment."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest
from agent_node import manifest
from hypothesis import given
from hypothesis import strategies as st

from unisono.agent.layout import rewrite_in_place
from unisono.agent.network.names import (
    AddressBook,
    hostname_of,
    hosts_file,
    peer_of,
    replace_names,
    shared_lines,
    table,
)
from unisono.api.base import ObjectMeta
from unisono.api.core import Service, ServiceSpec
from unisono.errors import AgentError

MASTER = peer_of(manifest("job-master-0", subdomain="job"), "127.64.0.1")
WORKER = peer_of(manifest("job-worker-0", subdomain="job"), "127.64.0.2")
PLAIN = peer_of(manifest("alone"), "127.64.0.3")
OTHER = peer_of(manifest("x-0", subdomain="x", metadata={"namespace": "other"}), "127.64.0.4")
SERVICE = Service(
    metadata=ObjectMeta(name="job-head-svc", namespace="default"), spec=ServiceSpec(selector={"app": "job-master"})
)


def test_lines_of_a_namespace() -> None:
    assert shared_lines("default", [MASTER, WORKER, PLAIN, OTHER], [SERVICE]) == [
        "127.64.0.1\tjob-master-0.job job-master-0.job.default job-master-0.job.default.svc "
        "job-master-0.job.default.svc.cluster.local",
        "127.64.0.2\tjob-worker-0.job job-worker-0.job.default job-worker-0.job.default.svc "
        "job-worker-0.job.default.svc.cluster.local",
        "127.64.0.4\tx-0.x.other x-0.x.other.svc x-0.x.other.svc.cluster.local",
        "127.64.0.1\tjob-head-svc job-head-svc.default job-head-svc.default.svc job-head-svc.default.svc.cluster.local",
    ]


def test_a_headless_service_leads_to_all_its_pods() -> None:
    both = Service(metadata=ObjectMeta(name="all", namespace="default"), spec=ServiceSpec(selector={}))
    assert not [line for line in shared_lines("default", [MASTER], [both]) if "all" in line.split("\t")[1].split()]
    both.spec.selector = {"app": "job-worker"}
    workers = [peer_of(manifest(f"job-worker-{n}"), f"127.64.1.{n}") for n in (1, 2)]
    assert [line.split("\t")[0] for line in shared_lines("default", workers, [both])] == ["127.64.1.1", "127.64.1.2"]


def test_hosts_file_of_a_pod() -> None:
    machine = "127.0.0.1 localhost\n::1 localhost\n127.0.1.1 job-worker-0\n10.1.1.1 licences  # floating\n\n# text\n"
    lines = hosts_file(WORKER, ["127.64.0.1\tjob-master-0.job"], [("10.9.9.9", ["a", "b"])], machine).splitlines()
    assert lines == [
        "127.0.0.1\tlocalhost",
        "127.64.0.2\tjob-worker-0.job.default.svc.cluster.local job-worker-0",
        "10.9.9.9\ta b",
        "127.64.0.1\tjob-master-0.job",
        "10.1.1.1 licences  # floating",
    ]


def test_host_names_are_at_most_63_characters() -> None:
    assert hostname_of(manifest("a" * 70)) == "a" * 63
    assert hostname_of(manifest("a", hostname="b")) == "b"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("job-master-0.job", "127.64.0.1"),
        ("tcp://job-master-0.job:23456", "tcp://127.64.0.1:23456"),
        ("job-master-0.job,job-worker-0.job", "127.64.0.1,127.64.0.2"),
        ("my-job-master-0.job", "my-job-master-0.job"),
        ("job-master-0.jobs", "job-master-0.jobs"),
        ("job-master-0.job.default.svc.cluster.local", "127.64.0.1"),
        ("nothing", "nothing"),
    ],
)
def test_names_in_the_environment(text: str, expected: str) -> None:
    assert replace_names(text, table("default", [MASTER, WORKER], [])) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("train", "train"),
        ("--mode=train", "--mode=train"),
        ("train | sort", "train | sort"),
        ("train:a", "train:a"),
        ("train:6379", "127.64.0.1:6379"),
        ("tcp://train", "tcp://127.64.0.1"),
        ("http://me@train/x", "http://me@127.64.0.1/x"),
        ("train.default", "127.64.0.1"),
        ("retrain:80", "retrain:80"),
    ],
)
def test_names_that_may_be_words(text: str, expected: str) -> None:
    service = Service(
        metadata=ObjectMeta(name="train", namespace="default"), spec=ServiceSpec(selector={"app": "job-master"})
    )
    assert replace_names(text, table("default", [MASTER], [service])) == expected


def test_addresses_are_kept_and_come_back_last(tmp_path: Path) -> None:
    small = ipaddress.IPv4Network("127.64.0.0/29")
    book = AddressBook(tmp_path / "a.json", small)
    given_out = [book.allocate(f"u{n}") for n in range(6)]
    assert len(set(given_out)) == 6
    assert "127.64.0.0" not in given_out
    assert "127.64.0.7" not in given_out
    with pytest.raises(AgentError, match="delete some pods"):
        book.allocate("u6")
    assert AddressBook(tmp_path / "a.json", small).get("u3") == given_out[3]
    book.release("u2")
    assert book.allocate("u7") == given_out[2]
    assert book.allocate("u7") == given_out[2]
    book.keep_only({"u7"})
    assert book.get("u1") is None


def test_a_freed_address_is_not_given_out_at_once(tmp_path: Path) -> None:
    book = AddressBook(tmp_path / "a.json")
    first = book.allocate("a")
    book.release("a")
    assert book.allocate("b") != first


def test_a_damaged_book_is_started_anew(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    assert AddressBook(tmp_path / "a.json").allocate("a").startswith("127.")


@given(st.lists(st.text(max_size=50), max_size=5))
def test_files_are_rewritten_in_place(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    path = tmp_path_factory.mktemp("hosts") / "hosts"
    rewrite_in_place(path, "first\n")
    inode = path.stat().st_ino
    for text in texts:
        changed = path.read_bytes() != text.encode()
        assert rewrite_in_place(path, text) == changed
        assert path.read_bytes() == text.encode()
        assert path.stat().st_ino == inode
