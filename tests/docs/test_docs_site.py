"""The site: every page has one place, links lead where they did, references have what the code has."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from support.plane import PATIENCE, REPOSITORY
from unisono.api.crds import crd_manifests
from unisono.engine.plugins.registry import BUILT_IN

sys.path.append(str(REPOSITORY / "scripts"))
site: Any = import_module("docs_site")

DOCS = REPOSITORY / "docs"


def test_every_page_stands_once_in_the_index() -> None:
    named = Counter(page for _, pages in site.sections().values() for page in pages)
    assert set(named) == {path.name for path in DOCS.glob("*.md")} - {"README.md"}
    assert set(named.values()) == {1}
    assert list(site.sections()) == ["Tutorials", "How-to guides", "Reference", "Explanation"]


@pytest.mark.parametrize(
    ("file", "text", "made"),
    [
        ("docs/jobs.md", "[a](cli.md#x)", "[a](cli.md#x)"),
        ("docs/jobs.md", "![a](images/growth-pods.svg)", "![a](images/growth-pods.svg)"),
        ("docs/jobs.md", "[a](../CONTRIBUTING.md)", "[a](project/CONTRIBUTING.md)"),
        ("docs/jobs.md", "[a](../examples/hello.yaml)", "[a](REPOSITORY/blob/main/examples/hello.yaml)"),
        ("docs/jobs.md", "[a](https://example.com/x.md)", "[a](https://example.com/x.md)"),
        ("docs/decisions/0002-lock-files-without-an-index.md", "[a](../cli.md)", "[a](../cli.md)"),
        ("docs/site/index.md", "[a](../cli.md)", "[a](cli.md)"),
        ("SECURITY.md", "[a](docs/cli.md#x)", "[a](../cli.md#x)"),
        ("SECURITY.md", "[a](README.md)", "[a](REPOSITORY/blob/main/README.md)"),
        ("docs/jobs.md", "```text\n[a](../x)\n```\n", "```text\n[a](../x)\n```\n"),
    ],
)
def test_links_lead_where_they_did(file: str, text: str, made: str) -> None:
    assert site.moved(text, REPOSITORY / file, site.places()) == made.replace("REPOSITORY", site.repository())


def test_references_have_every_kind_field_and_argument() -> None:
    made = site.generated()
    for manifest in crd_manifests():
        page = made[f"reference/kinds/{manifest['metadata']['name']}.md"]
        for version in manifest["spec"]["versions"]:
            properties = version["schema"]["openAPIV3Schema"]["properties"]
            inner = properties.get("spec", {}).get("properties", {})
            assert [name for name in inner if f"| `spec.{name}" not in page] == []
    page = made["reference/arguments.md"]
    for name, plugin in BUILT_IN.items():
        assert f"\n## {name}\n" in page
        assert [one.key for one in plugin.known_arguments if f"| `{one.key}` |" not in page] == []


@pytest.mark.parametrize("name", ["sdk", "plugin"])
def test_references_have_every_name_of_a_module(name: str) -> None:
    page, module = site.generated()[f"reference/{name}.md"], import_module(f"unisono.{name}")
    # Type aliases of numpy have no docstrings of their own.
    aliases = {"BoolArray", "FloatArray", "Key", "Preparation"}
    assert set(re.findall(r"^## (\w+)$", page, re.MULTILINE)) == set(module.__all__) - aliases


@pytest.mark.parametrize(
    ("page", "made"),
    [
        ('<p class="caption" role="heading">', '<p class="caption" role="heading" aria-level="2">'),
        ("<pre>x</pre>", '<pre tabindex="0">x</pre>'),
        ('<tr><th class="head"><p></p></th>', '<tr><td class="head"></td>'),
        (
            '<td><p><code class="docutils a.b"><span class="pre">spec.volumes[].name</span></code></p></td>',
            '<td><p><code class="docutils a.b"><span class="pre">spec.<wbr>volumes[].<wbr>name</span></code></p></td>',
        ),
        ("<td><p>From 0.1 on. Then</p></td>", "<td><p>From 0.1 on. Then</p></td>"),
    ],
)
def test_what_the_theme_leaves_out_is_mended(page: str, made: str) -> None:
    assert site.mended(f"<h1>Title</h1>{page}") == f"<h1>Title</h1>{made}"


def test_every_release_is_offered_below_its_own_path() -> None:
    assert site.versions(["v0.2.0", "v0.1.0"]) == [
        {"name": "main", "path": ""},
        {"name": "0.2.0", "path": "0.2.0/"},
        {"name": "0.1.0", "path": "0.1.0/"},
    ]


@pytest.mark.more
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    if not all(importlib.util.find_spec(name) for name in ("sphinx", "furo", "myst_parser")):
        pytest.skip("the site's generator is not installed: make docs")
    program = "import docs_site, pathlib, sys; sys.argv[1:] = []; "
    program += f"docs_site.BUILD = pathlib.Path({str(tmp_path)!r}); exit(docs_site.main())"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY / "scripts", capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "index.html").is_file()
    assert (tmp_path / "site" / "searchindex.js").is_file()
