"""The commands that run components: what they refuse before they do anything, and what ``crds`` prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from unisono.api.kinds import CUSTOM_KINDS
from unisono.cli.main import cli
from unisono.errors import ConfigError

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: main
contexts: [{name: main, context: {cluster: c}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:9"}}]
"""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["agent"], "--simulate or --nodes"),
        (["agent", "--simulate", "0"], "not in the range"),
        (["agent", "--simulate", "2", "--capacity", "cpu"], "'cpu' is not RESOURCE=AMOUNT"),
        (["scheduler", "--gang-patience", "0"], "not in the range"),
        (["scheduler", "--config", "nowhere.yaml"], "does not exist"),
        (["controllers", "--log-level", "loud"], "is not one of"),
    ],
)
def test_wrong_options_are_named(words: list[str], told: str) -> None:
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 2
    assert told in result.output


@pytest.mark.parametrize("name", ["scheduler", "controllers"])
def test_a_kubeconfig_that_is_missing_is_named(name: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, [name, "--kubeconfig", str(tmp_path / "none")])
    assert isinstance(result.exception, ConfigError)
    assert str(tmp_path / "none") in str(result.exception)


def test_an_address_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(KUBECONFIG)
    result = CliRunner().invoke(cli, ["controllers", "--kubeconfig", str(tmp_path / "config"), "--listen", "here"])
    assert isinstance(result.exception, ConfigError)
    assert "'here' is not an address" in str(result.exception)


@pytest.mark.parametrize("output", ["yaml", "json"])
def test_crds_prints_every_kind(output: str) -> None:
    result = CliRunner().invoke(cli, ["crds", "-o", output])
    # Without the places of lines, which takes seconds for text of this size.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = json.loads(result.stdout)["items"] if output == "json" else yaml.load_all(result.stdout, Loader=loader)
    assert {item["metadata"]["name"] for item in found} == {kind.resource for kind in CUSTOM_KINDS}
