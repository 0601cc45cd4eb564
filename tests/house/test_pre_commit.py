"""The hooks of ``.pre-commit-config.yaml`` run the tools that ``make lint`` runs, from ``.venv``, without a network."""

from __future__ import annotations

import yaml

from support.plane import REPOSITORY

HOOKS = [
    hook
    for source in yaml.safe_load((REPOSITORY / ".pre-commit-config.yaml").read_text())["repos"]
    for hook in source["hooks"]
]


def test_every_hook_runs_a_tool_of_the_environment():
    assert all(hook["language"] == "system" and hook["entry"].startswith(".venv/bin/") for hook in HOOKS)


def test_every_tool_of_make_lint_is_a_hook():
    recipe = (REPOSITORY / "Makefile").read_text().partition("\nlint:")[2].partition("\n\n")[0]
    tools = [line.strip().removeprefix("$(BIN)/").split()[:2] for line in recipe.splitlines()[1:]]
    entries = [hook["entry"].removeprefix(".venv/bin/").split() for hook in HOOKS]
    for tool in tools:
        wanted = [word for word in tool if not word.startswith((".", "-"))]
        assert any(entry[: len(wanted)] == wanted for entry in entries), wanted
