"""The documentation is checked: every option is described, every YAML block is accepted, every link leads somewhere."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from support.plane import REPOSITORY
from unisono import __version__
from unisono.api.decode import decode
from unisono.api.defaulting import apply_defaults
from unisono.api.kinds import find
from unisono.api.validation import validate
from unisono.api.yaml import load_all
from unisono.cli.main import COMMANDS, cli

PAGES = sorted([*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
COMMON = {"--help", "--data-dir", "--kubeconfig", "--context", "--namespace"}


def blocks(language: str) -> list[tuple[str, str]]:
    return [
        (f"{page.relative_to(REPOSITORY)}:{page.read_text()[: match.start()].count(chr(10)) + 1}", match[2])
        for page in PAGES
        for match in BLOCK.finditer(page.read_text())
        if match[1] == language
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_every_link_of_a_page_leads_to_a_file(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_places_where_changes_begin_exist() -> None:
    text = (REPOSITORY / "docs" / "architecture.md").read_text()
    places = re.findall(r"`([\w/]+\.py)::(\w+)`", text)
    assert len(places) >= 20
    for file, name in places:
        tree = ast.parse((REPOSITORY / "src" / "unisono" / file).read_text())
        named = {getattr(node, "name", "") for node in tree.body}
        for node in tree.body:
            named |= {
                str(getattr(each, "id", "")) for each in getattr(node, "targets", [getattr(node, "target", None)])
            }
        assert name in named, f"{file} has no {name}"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_described(name: str) -> None:
    text = (REPOSITORY / "docs" / "cli.md").read_text()
    section = re.search(rf"^## unisono {name}\b.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert section, f"docs/cli.md has no section on unisono {name}"
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    for word, each in (("", command), *(command.commands.items() if isinstance(command, click.Group) else ())):
        assert not word or re.search(rf"`{name} {word}|`{word}\b", section[0]), f"{name} {word} is not described"
        for parameter in each.params:
            if isinstance(parameter, click.Option):
                long = max(parameter.opts, key=len)
                said = long in section[0] or long in COMMON
                assert said, f"docs/cli.md does not describe {long} of unisono {name} {word}"


@pytest.mark.parametrize(("where", "text"), [(w, t) for w, t in blocks("yaml") if "apiVersion:" in t])
def test_every_manifest_in_the_documentation_is_accepted(where: str, text: str) -> None:
    for document in load_all(text, file=where):
        kind = find(document.value["apiVersion"], document.value["kind"])
        assert kind is not None, where
        decoded = decode(kind, document.value)
        assert not decoded.unknown_fields
        assert not decoded.type_errors
        apply_defaults(kind, decoded.obj)
        assert not [error.message() for error in validate(kind, decoded.obj)]


@pytest.mark.parametrize(("where", "text"), blocks("console"))
def test_every_command_in_the_documentation_exists(where: str, text: str) -> None:
    for line in re.findall(r"^\$ unisono ([^#\n]*)", text, re.MULTILINE):
        words = line.split()
        command = cli.get_command(click.Context(cli), words[0])
        assert command is not None, where
        if isinstance(command, click.Group):
            assert words[1] in command.commands, where
            command = command.commands[words[1]]
        words = words[: words.index("--")] if "--" in words else words
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        assert {word.partition("=")[0] for word in words if word.startswith("-")} <= known, where


def test_the_table_of_files_names_every_module() -> None:
    script = [sys.executable, str(REPOSITORY / "scripts" / "file_table.py")]
    page = subprocess.run(script, check=True, capture_output=True, text=True).stdout
    modules = {str(path.relative_to(REPOSITORY / "src" / "unisono")) for path in (REPOSITORY / "src").rglob("*.py")}
    assert {name for name in modules if f"| `{name}` |" not in page} == set()


def test_every_module_says_what_it_is_for() -> None:
    says = re.compile(r'(#.*\n|\s)*"""\s*[^\s"]')
    silent = [str(path) for path in (REPOSITORY / "src").rglob("*.py") if not says.match(path.read_text())]
    assert not silent


def test_no_source_file_is_above_600_lines() -> None:
    files = [*(REPOSITORY / "src").rglob("*.py"), *(REPOSITORY / "tests").rglob("*.py")]
    long = {str(path): count for path in files if (count := len(path.read_text().splitlines())) > 600}
    assert not long


def test_the_commands_of_the_installation_name_this_version() -> None:
    text = (REPOSITORY / "docs" / "install.md").read_text()
    named = re.findall(r"(?:unisono:|--version |unisono-(?:image-)?)(\d+\.\d+\.\d+)", text)
    assert len(named) > 3
    assert {__version__.partition("+")[0]} == set(named)
