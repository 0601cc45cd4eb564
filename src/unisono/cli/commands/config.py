"""``unisono config``: the scheduler's configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from unisono.cli.options import Where, output_option, where_options


@click.group("config")
def command() -> None:
    """Look at the scheduler's configuration."""


@command.command("check")
@click.option(
    "-f",
    "--filename",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="This file.  [default: what the running scheduler says of its own]",
)
@output_option("text", "json")
@where_options
def check(where: Where, file: Path | None, output: str) -> None:
    """Say whether a configuration file can be used, or whether the running scheduler refuses its newest one.

    A file is read as the scheduler reads it: plug-ins are imported. The exit code is 1 where it cannot be used.
    """
    from unisono.cli.connection import run_async
    from unisono.cli.printing import print_json

    found = _of_file(file) if file is not None else run_async(_of_scheduler(where))
    if output == "json":
        print_json(found)
    else:
        for line in _lines(found):
            click.echo(line)
    if found["error"]:
        raise SystemExit(1)


def _of_file(file: Path) -> dict[str, Any]:
    import sys

    from unisono.engine.config_file.reader import load_config
    from unisono.errors import ConfigError

    # As the scheduler, which is started where its plug-ins are.
    sys.path.insert(0, str(Path.cwd()))
    try:
        config = load_config(file.read_text(encoding="utf-8"), str(file))
    except ConfigError as error:
        return {"source": str(file), "error": str(error)}
    except (OSError, UnicodeDecodeError) as error:
        return {"source": str(file), "error": f"{file} cannot be read: {error}."}
    tiers = [[plugin.name for plugin in tier] for tier in config.tiers]
    return {"source": str(file), "error": "", "actions": list(config.actions), "tiers": tiers}


async def _of_scheduler(where: Where) -> dict[str, Any]:
    from unisono.api.annotations import CONFIGURATION_ERROR, SCHEDULER_CYCLES
    from unisono.api.kinds import LEASES
    from unisono.cli.connection import connect
    from unisono.errors import UnisonoError

    async with connect(where) as client:
        leases = (await client.list(LEASES, label_selector=f"{SCHEDULER_CYCLES}=true")).items
    if not leases:
        raise UnisonoError("No scheduler has told anything of its configuration: name a file with -f.")
    errors = [(lease.metadata.annotations or {}).get(CONFIGURATION_ERROR, "") for lease in leases]
    return {"source": "the running scheduler", "error": next(filter(None, errors), "")}


def _lines(found: dict[str, Any]) -> list[str]:
    if found["error"]:
        return [f"{found['source']}: {click.style('refused', fg='red', bold=True)}: {found['error']}"]
    lines = [f"{found['source']}: {click.style('ok', fg='green', bold=True)}"]
    if "actions" in found:
        lines.append(f"  actions: {', '.join(found['actions'])}")
        lines += [f"  tier {number}: {', '.join(tier) or 'none'}" for number, tier in enumerate(found["tiers"], 1)]
    return lines
