"""Build the site of docs/ into build/site: ``make docs``. A broken link, or a page without a place, fails it.

Pages are ordered by the tables of docs/README.md. References of kinds, of plug-ins' arguments, of the SDK and of the
plug-in contract are made from the code, and are in no repository.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent))
import file_table

from unisono import plugin, sdk
from unisono.api.crds import crd_manifests
from unisono.engine.config.arguments import Argument
from unisono.engine.plugins.registry import BUILT_IN

HOME = Path(__file__).resolve().parents[1]
DOCS = HOME / "docs"
BUILD = HOME / "build"
_LINK = re.compile(r"(?<=\]\()([^)#\s]+)(#[^)\s]*)?(?=\))")
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| \[(.+?)\]\((\S+?)\) \| (.+) \|$", re.MULTILINE)
_SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
# Fields below this depth, and those of pods, are in Kubernetes' reference.
_DEPTH = 4


def repository() -> str:
    """Its address."""
    return str(tomllib.loads((HOME / "pyproject.toml").read_text())["project"]["urls"]["Repository"])


def sections() -> dict[str, tuple[str, list[str]]]:
    """What docs/README.md says: introduction and pages of each section, in order."""
    text = (DOCS / "README.md").read_text()
    return {
        name: (body.strip().partition("\n")[0], [page for _, page, _ in _ROW.findall(body)])
        for name, body in _SECTION.findall(text)
    }


def project_pages() -> list[Path]:
    """Pages on the project itself."""
    return [path for path in sorted(HOME.glob("*.md")) if path.name != "README.md"]


def places() -> dict[Path, str]:
    """Where each page and picture goes, by its file."""
    found = {path: str(path.relative_to(DOCS)) for path in DOCS.rglob("*") if path.suffix in (".md", ".svg", ".png")}
    found |= {path: f"project/{path.name}" for path in project_pages()}
    found.pop(DOCS / "README.md")
    found[DOCS / "site" / "index.md"] = "index.md"
    return found


def moved(text: str, file: Path, known: dict[Path, str]) -> str:
    """The text of a page with its links as they are in the site; what the site lacks is in the repository."""
    own = Path("/", known[file]).parent

    def link(found: re.Match[str]) -> str:
        target, anchor = found[1], found[2] or ""
        if "://" in target or target.startswith("mailto:"):
            return found[0]
        there = (file.parent / target).resolve()
        if there in known:
            return os.path.relpath(f"/{known[there]}", own) + anchor
        if there == DOCS / "README.md":
            return os.path.relpath("/index.md", own)
        return f"{repository()}/blob/main/{there.relative_to(HOME)}{anchor}"

    # Links within code are text.
    pieces, end = list[str](), 0
    for fence in _FENCE.finditer(text):
        pieces += [_LINK.sub(link, text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join(pieces) + _LINK.sub(link, text[end:])


def tree(pages: list[str], caption: str = "", *, hidden: bool = True) -> str:
    """Sphinx' list of pages."""
    options = ["```{toctree}"] + ([f":caption: {caption}"] if caption else []) + [":hidden:"] * hidden
    return "\n".join([*options, "", *pages, "```", ""])


def fields(schema: dict[str, Any], path: str = "", depth: int = 0) -> Iterator[tuple[str, str, str]]:
    """Path, type and description of each field of a schema."""
    for name, told in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        inner, kind = told, told.get("type", "any")
        while kind.startswith("array") and inner.get("type") == "array":
            inner, here = inner.get("items", {}), here + "[]"
        yield here, kind if kind != "array" else f"list of {inner.get('type', 'any')}", told.get("description", "")
        if depth < _DEPTH and "containers" not in inner.get("properties", {}):
            yield from fields(inner, here, depth + 1)


def cell(text: Any) -> str:
    """Text for a cell of a table."""
    return " ".join(str(text).replace("|", "\\|").replace("<", "&lt;").replace("``", "`").split())


def kind_page(manifest: dict[str, Any]) -> str:
    """Reference of one kind, from its definition."""
    spec = manifest["spec"]
    lines = [f"# {spec['names']['kind']} ({spec['group']})", ""]
    for version in spec["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        scope = "namespaced" if spec["scope"] == "Namespaced" else "of the cluster"
        lines += [f"## {version['name']}", "", schema.get("description", ""), ""]
        lines += [
            f"`{spec['names']['plural']}.{spec['group']}`, {scope}.",
            "",
            "| field | type | meaning |",
            "|---|---|---|",
        ]
        top = {name: told for name, told in schema["properties"].items() if name in ("spec", "status")} or schema[
            "properties"
        ]
        lines += [f"| `{path}` | {kind} | {cell(about)} |" for path, kind, about in fields({"properties": top})]
        lines.append("")
    return "\n".join(lines)


def argument_row(argument: Argument) -> str:
    """One argument of a plug-in as a row."""
    default = "" if argument.default in (None, "") else f"`{cell(argument.default)}`"
    kind = " or ".join(f"`{choice}`" for choice in argument.choices) or argument.kind
    without = "" if argument.effective else " (accepted, without effect)"
    return f"| `{argument.key}` | {kind} | {default} | {cell(argument.meaning)}{without} |"


def arguments_page() -> str:
    """All arguments of all plug-ins."""
    lines = [
        "# Arguments of plug-ins",
        "",
        "As the scheduler's configuration names them, from the code of each plug-in.",
        "",
    ]
    for name, found in sorted(BUILT_IN.items()):
        lines += [f"## {name}", ""]
        if known := found.known_arguments:
            lines += ["| argument | type | default | meaning |", "|---|---|---|---|", *map(argument_row, known)]
        else:
            lines.append("Takes no arguments.")
        lines.append("")
    return "\n".join(lines)


def names_page(title: str, about: str, module: Any) -> str:
    """Everything that a module gives, by its docstrings."""
    lines = [f"# {title}", "", about, ""]
    for name in module.__all__:
        what = getattr(module, name)
        home = getattr(what, "__module__", None)
        own = getattr(what, "__qualname__", None)
        if home is None or own is None or not str(home).startswith("unisono"):
            continue
        directive = "autoexception" if isinstance(what, type) and issubclass(what, BaseException) else (
            "autoclass" if isinstance(what, type) else "autofunction"
        )  # fmt: skip
        lines += [f"## {name}", "", "```{eval-rst}", f".. {directive}:: {home}.{own}"]
        if directive == "autoclass":
            lines += ["   :members:", "   :inherited-members: BaseException, Enum, Struct, tuple, int, str"]
        lines += ["```", ""]
    return "\n".join(lines)


def generated() -> dict[str, str]:
    """Pages made from the code, by their places."""
    kinds = {f"reference/kinds/{each['metadata']['name']}.md": kind_page(each) for each in crd_manifests()}
    index = [
        "# Kinds",
        "",
        "Every field, from the definitions that a cluster gets. Pod templates are Kubernetes' own.",
        "",
    ]
    inner = [place.removeprefix("reference/").removesuffix(".md") for place in sorted(kinds)]
    return kinds | {
        "reference/kinds.md": "\n".join(index) + tree(inner, hidden=False),
        "reference/arguments.md": arguments_page(),
        "reference/sdk.md": names_page(
            "unisono.sdk", "The SDK, from its docstrings; [Jobs from Python](../sdk.md) shows it at work.", sdk
        ),
        "reference/plugin.md": names_page(
            "unisono.plugin",
            "The contract of plug-ins, from its docstrings; [Writing a plug-in](../plugins.md) shows it at work.",
            plugin,
        ),
        "reference/files.md": file_table.table(),
    }


def write(folder: Path) -> None:
    """All that Sphinx reads."""
    known, made = places(), generated()
    for file, place in known.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            (folder / place).write_text(moved(file.read_text(), file, known))
        else:
            shutil.copyfile(file, folder / place)
    for place, text in made.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(text)
    found = re.search(
        r"<!-- table: begin -->\n(.*?)<!-- table: end -->", (DOCS / "comparison.md").read_text(), re.DOTALL
    )
    assert found is not None
    index = (folder / "index.md").read_text().replace("<!-- comparison -->", found[1].strip())
    trees = list[str]()
    extra = {
        "Reference": ["reference/arguments", "reference/kinds", "reference/sdk", "reference/plugin"],
        "Explanation": ["decisions/index", "reference/files"],
    }
    for name, (_, pages) in sections().items():
        trees.append(tree([page.removesuffix(".md") for page in pages] + extra.get(name, []), name))
    trees.append(tree([f"project/{path.stem}" for path in project_pages()], "The project"))
    (folder / "index.md").write_text(index + "\n" + "\n".join(trees))
    decisions = sorted(path.stem for path in (DOCS / "decisions").glob("*.md"))
    about = "# Decisions\n\nWhat a newcomer would question, and why it is so.\n\n"
    (folder / "decisions" / "index.md").write_text(about + tree(decisions, hidden=False))
    assets = {"site.css": "_static", "versions.js": "_static", "favicon.svg": "_static", "versions.html": "_templates"}
    for name, place in {"conf.py": "", **assets}.items():
        (folder / place).mkdir(exist_ok=True)
        shutil.copyfile(DOCS / "site" / name, folder / place / name)


# What the theme leaves to be wished for by who hears pages, or has no mouse.
_MENDED = (
    (re.compile(r'<p class="caption" role="heading">'), '<p class="caption" role="heading" aria-level="2">'),
    (re.compile(r'<aside class="sidebar-drawer">'), '<aside class="sidebar-drawer" aria-label="All pages">'),
    (re.compile(r'<aside class="toc-drawer'), '<aside aria-label="This page" class="toc-drawer'),
    (re.compile(r"<pre>"), '<pre tabindex="0">'),
    (re.compile(r'<div class="table-wrapper'), '<div tabindex="0" class="table-wrapper'),
    # Corners of tables are no headings.
    (re.compile(r'<th class="head"><p></p></th>'), '<td class="head"></td>'),
)
_NAME_IN_TABLE = re.compile(r"(?<=<td>)<p><code[^>]*>.*?</code></p>")


def mended(page: str) -> str:
    """A page of the site, so that it is accessible and long names of fields break after their dots."""
    for what, better in _MENDED:
        page = what.sub(better, page)
    if "<h1" not in page:
        page = re.sub(r'(<article role="main"[^>]*>)', r"\1\n<h1>Search</h1>", page, count=1)
    return _NAME_IN_TABLE.sub(lambda found: re.sub(r"\.(?=\w)(?![^<]*>)", ".<wbr>", found[0]), page)


def releases() -> list[str]:
    """Tags of released versions whose sites can stand beside this one, youngest first."""
    words = ["git", "-C", str(HOME), "tag", "--merged", "HEAD", "--list", "v*", "--sort=-v:refname"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()


def add_release(tag: str, site: Path) -> None:
    """Build the site of a release by its own script and sources, and put it below ``site``."""
    name = tag.removeprefix("v")
    with tempfile.TemporaryDirectory(prefix="unisono-site-") as folder:
        subprocess.run(["git", "clone", "--quiet", "--branch", tag, str(HOME), folder], check=True, capture_output=True)
        environment = {**os.environ, "PYTHONPATH": f"{folder}/src", "UNISONO_SITE_PATH": f"{name}/"}
        subprocess.run([sys.executable, f"{folder}/scripts/docs_site.py"], check=True, env=environment)
        shutil.copytree(f"{folder}/build/site", site / name)


def versions(tags: Iterable[str]) -> list[dict[str, str]]:
    """What the chooser of versions shows, and where each stands below the root."""
    names = [tag.removeprefix("v") for tag in tags]
    return [{"name": "main", "path": ""}, *({"name": name, "path": f"{name}/"} for name in names)]


def main() -> int:
    """Write the pages, and let Sphinx make the site; its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--releases", action="store_true", help="put the sites of all releases beside this one")
    tags = releases() if parser.parse_args().releases else []
    source, site = BUILD / "site-source", BUILD / "site"
    for folder in (source, site):
        shutil.rmtree(folder, ignore_errors=True)
    source.mkdir(parents=True)
    write(source)
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", "-b", "dirhtml"]
    code = subprocess.run([*command, str(source), str(site)], check=False).returncode
    if code == 0:
        for page in site.rglob("*.html"):
            page.write_text(mended(page.read_text()))
        for tag in tags:
            add_release(tag, site)
        if not os.environ.get("UNISONO_SITE_PATH"):
            (site / "versions.json").write_text(json.dumps(versions(tags)))
        print(f"The site is built: {len(list(site.rglob('*.html')))} pages in {site}")
    return code


if __name__ == "__main__":
    sys.exit(main())
