"""README is read in the repository and on package indexes: it is short, and each of its links works from anywhere."""

from __future__ import annotations

import re
import tomllib

import yaml

from support.plane import REPOSITORY
from unisono.install.workloads import IMAGE

TEXT = (REPOSITORY / "README.md").read_text()
URLS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["urls"]


def test_readme_is_short() -> None:
    assert len(TEXT.splitlines()) < 120


def test_links_are_absolute_and_lead_to_files_of_the_repository() -> None:
    blob = URLS["Repository"] + "/blob/main/"
    links = re.findall(r"\]\(([^)\s]+)\)", TEXT)
    assert len(links) > 10
    wrong = [
        link
        for link in links
        if not link.startswith(URLS["Documentation"])
        and not (link.startswith(blob) and (REPOSITORY / link.removeprefix(blob).partition("#")[0]).is_file())
    ]
    assert wrong == []


def test_the_repository_has_one_address() -> None:
    assert URLS["Changelog"].startswith(URLS["Repository"]) and URLS["Issues"].startswith(URLS["Repository"])
    owner, _, name = URLS["Repository"].removeprefix("https://github.com/").partition("/")
    assert URLS["Documentation"] == f"https://{owner}.github.io/{name}"
    image = yaml.safe_load((REPOSITORY / "deploy" / "chart" / "unisono" / "values.yaml").read_text())["image"]
    assert f"{image['registry']}/{image['repository']}" == IMAGE == f"ghcr.io/{owner}/{name}"


def test_the_changelog_has_a_place_for_what_comes_next() -> None:
    headings = re.findall(r"^## (\S+)", (REPOSITORY / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
