"""docs/security.md is checked: its tests exist, its limits are those of the code, and its ways to rotate keys work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.plane import REPOSITORY
from unisono.agent.environment import _MOST, LONGEST, MOST_BYTES
from unisono.agent.network.names import MOST_FOREIGN_LINES, MOST_OWN_LINES
from unisono.agent.pods.containers import _LEAST_PIDS, _PIDS_PER_CPU
from unisono.agent.processes.launch import LOG_BYTES, LOG_FILES
from unisono.agent.volumes.mounts import MOST_FILES
from unisono.api import patterns
from unisono.api.annotations import MOST_GRACE_SECONDS, MOST_NOTICE_SECONDS
from unisono.api.cel import estimate, syntax, values
from unisono.api.documents import MAX_COPIED
from unisono.api.pod_limit import MOST_PODS
from unisono.api.resources import LARGEST
from unisono.api.validation.meta import LARGEST_ANNOTATIONS
from unisono.apiserver.access.pki import Authority, utc_now
from unisono.apiserver.access.service_accounts import TokenSigner
from unisono.apiserver.flow_control import DEEPEST, Limits
from unisono.apiserver.operations.writes import LARGEST_OBJECT
from unisono.cluster.podclass import MOST_PORTS, MOST_TERMS, MOST_TOLERATIONS, MOST_VALUES, MOST_VOLUMES
from unisono.engine.config.model import DEFAULT_PLUGIN_TIME
from unisono.engine.plugins.common.topology_spread import MOST_PREFERENCES

PAGE = (REPOSITORY / "docs" / "security.md").read_text()
TESTS = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
LIMITS = Limits()
MIB = 1024 * 1024
DEFAULTS = [
    "3 MiB | `--api-limit body_bytes=N`" if LIMITS.body_bytes == 3 * MIB else "",
    f"| stored object | {LARGEST_OBJECT / MIB:g} MiB |",
    f"| stored objects of a namespace | {LIMITS.namespace_bytes // MIB} MiB |",
    f"| annotations of an object | {LARGEST_ANNOTATIONS // 1024} KiB |",
    f"| depth of a body | {DEEPEST} levels |",
    f"{syntax.LONGEST:,} characters, {syntax.DEEPEST} levels",
    f"{values.EXPRESSION_LIMIT:,}, {values.OBJECT_LIMIT:,} |",
    f"{estimate.RULE_LIMIT:,}, {estimate.DEFINITION_LIMIT:,} |",
    f"{patterns._LONGEST:,} characters, {patterns._LARGEST // MIB} MiB compiled",
    f"| {LIMITS.in_flight:,}, {LIMITS.in_flight_of_one:,} |",
    f"| {LIMITS.streams:,}, {LIMITS.streams_of_one:,} |",
    f"| {LIMITS.connections:,}, {LIMITS.connections_of_one:,}, {LIMITS.newcomers:,} |",
    f"| {LIMITS.handshake_seconds:g} s, {LIMITS.head_seconds:g} s |",
    f"| preferences of others that a pod's points heed | {MOST_PREFERENCES} |",
    f"and values in them | {MOST_TERMS}, {MOST_TERMS}, {MOST_VALUES:,} |",
    f"| {MOST_NOTICE_SECONDS / 60:g} min each |" if MOST_NOTICE_SECONDS == MOST_GRACE_SECONDS else "",
    f"| tolerations, host ports, volumes of a pod | {MOST_TOLERATIONS}, {MOST_PORTS:,}, {MOST_VOLUMES} |",
    f"| what one JSON patch copies | {MAX_COPIED // MIB} MiB |",
    f"| pods of one object | {MOST_PODS:,} |",
    f"{LARGEST // 1024**5}Pi of memory, {LARGEST // 1000:,} CPUs",
    f"| {LONGEST // 1024} KiB, {_MOST // MIB} MiB | fixed, as the kernel's |",
    f"| ConfigMaps, Secrets and downward API files of a pod | {MOST_BYTES // MIB} MiB, {MOST_FILES:,} files |",
    f"| {MOST_OWN_LINES:,}, {MOST_FOREIGN_LINES:,} |",
    f"| {LOG_FILES} files of {LOG_BYTES // MIB} MiB |",
    f"| {_LEAST_PIDS:,}, or {_PIDS_PER_CPU} per processor",
    f"| time of a third-party plug-in in a cycle | {DEFAULT_PLUGIN_TIME:g} s |",
]


@pytest.mark.parametrize(("file", "name"), TESTS)
def test_the_test_that_shows_a_control_exists(file: str, name: str) -> None:
    assert re.search(rf"def {name}\(", (REPOSITORY / file).read_text())


def test_every_control_names_its_test() -> None:
    section = PAGE.split("## Assets and controls")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]
    assert len(rows) == len(TESTS) > 20


@pytest.mark.parametrize("text", DEFAULTS)
def test_a_limit_is_the_one_of_the_code(text: str) -> None:
    assert text
    assert text in PAGE


def test_every_limit_of_the_page_is_compared() -> None:
    section = PAGE.split("## Limits in force")[1].split("\n## ")[0]
    assert len([line for line in section.splitlines() if line.startswith("|")]) - 2 == len(DEFAULTS)


def test_what_is_removed_is_made_again_and_the_old_is_worth_nothing(tmp_path: Path) -> None:
    authority = Authority(tmp_path, utc_now())
    token, ca, key = authority.token("admin"), authority.ca_pem, TokenSigner(tmp_path, lambda: 0.0)
    assert Authority(tmp_path, utc_now()).token("admin") == token
    (tmp_path / "admin.token").unlink()
    assert Authority(tmp_path, utc_now()).token("admin") != token
    assert Authority(tmp_path, utc_now()).ca_pem == ca
    (tmp_path / "service-account.key").unlink()
    assert TokenSigner(tmp_path, lambda: 0.0).keys() != key.keys()
    (tmp_path / "ca.key").unlink()
    assert Authority(tmp_path, utc_now()).ca_pem != ca
