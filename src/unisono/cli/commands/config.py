"""``unisono config``: the scheduler's configuration."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import click
import yaml

from unisono.cli.options import FILE, Where, output_option, run_async, where_options

_LOOKS, _LOOK_SECONDS = 24, 0.5
# Where values of Volcano's chart, and parameters of CCE's add-on, hold a configuration.
_OVERRIDES = (("custom", "scheduler_config_override"), ("default_scheduler_conf",))


@click.group("config")
def command() -> None:
    """Look at the scheduler's configuration."""


@command.command("check")
@click.option(
    "-f", "--filename", "file", type=FILE, help="This file.  [default: what the running scheduler says of its own]"
)
@output_option("text", "json")
@where_options
def check(where: Where, file: Path | None, output: str) -> None:
    """Say whether a configuration file can be used, or whether the running scheduler refuses its newest one.

    A file is read as the scheduler reads it: plug-ins are imported. It may be manifests with a ConfigMap, values of
    Volcano's chart, or parameters of CCE's add-on.

    Every error is named, up to a hundred; the exit code is 1 where there is one.
    """
    from unisono.cli.printing import print_json

    report = _of_file(file) if file is not None else run_async(_of_scheduler(where))
    if output == "json":
        print_json(report)
    else:
        for line in _lines(report):
            click.echo(line)
    if report["error"]:
        raise SystemExit(1)


@command.command("convert")
@click.option(
    "-f",
    "--filename",
    "file",
    type=FILE,
    required=True,
    help="The configuration, or the manifest of a ConfigMap that holds it.",
)
def convert(file: Path) -> None:
    """Write a configuration of kube-batch or of an older Volcano in the form that is read here.

    The configuration goes to standard output; what was written otherwise, and what has nothing like it, to standard
    error. The exit code is 1 where something in it still cannot be used.
    """
    from unisono.engine.config_file.dialects import convert as rewrite
    from unisono.engine.config_file.reader import config_errors
    from unisono.errors import UnisonoError

    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnisonoError(f"{file} cannot be read: {error}.") from None
    within = _within(text)
    converted = rewrite(text if within is None else within[1], str(file))
    click.echo(converted.text, nl=False)
    for change in converted.changes:
        click.echo(f"changed: {change}", err=True)
    for lost in converted.lost:
        click.echo(f"{click.style('left out', fg='yellow')}: {lost}", err=True)
    errors = config_errors(converted.text, "converted", imports=False)
    for wrong in errors:
        click.echo(f"{click.style('still wrong', fg='red')}: {wrong}", err=True)
    if errors:
        raise SystemExit(1)


def _of_file(file: Path) -> dict[str, Any]:
    import sys

    from unisono.engine.config_file.reader import config_errors, load_config
    from unisono.errors import ConfigError

    # As the scheduler, which is started where its plug-ins are.
    sys.path.insert(0, str(Path.cwd()))
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return _refused(str(file), [f"{file} cannot be read: {error}."])
    try:
        within = _within(text)
    except ConfigError as error:
        return _refused(str(file), [f"{file}: {error}"])
    text, name = (text, str(file)) if within is None else (within[1], f"{file}, {within[0]}")
    try:
        config = load_config(text, name)
    except ConfigError:
        return _refused(str(file), [str(error) for error in config_errors(text, name)])
    tiers = [[plugin.name for plugin in tier] for tier in config.tiers]
    facts = {"actions": list(config.actions), "tiers": tiers}
    return {"source": str(file), "error": "", "errors": [], "notes": list(config.notes), **facts}


def _refused(source: str, errors: list[str]) -> dict[str, Any]:
    return {"source": source, "error": errors[0] if errors else "", "errors": errors, "notes": []}


def _within(text: str) -> tuple[str, str] | None:
    """What holds the configuration in a file that has more in it, and the configuration; None where nothing does.

    It is the ConfigMap of Volcano among the manifests of an installation or in a list, values of Volcano's chart, or
    parameters of the add-on of Huawei's CCE.

    Raises:
        ConfigError: the manifests cannot be read, or their ConfigMap has no such key.
    """
    from unisono.api.core import ConfigMap
    from unisono.api.yaml import load_all
    from unisono.errors import ConfigError
    from unisono.scheduler.settings import holds_configuration, text_of

    try:
        values = [document.value for document in load_all(text)]
    except (ValueError, ConfigError):
        if re.search(r"^kind:", text, re.MULTILINE):
            raise
        return None
    objects = [each for one in values if isinstance(one, dict) for each in (one.get("items") or [one])]
    maps = [one for one in objects if isinstance(one, dict) and one.get("kind") == "ConfigMap"]
    if maps:
        own = [one for one in maps if holds_configuration(str((one.get("metadata") or {}).get("name")))]
        data = (own or maps)[0].get("data") or {}
        return "ConfigMap", text_of(ConfigMap(data={str(key): str(value) for key, value in data.items()}))
    for path in _OVERRIDES:
        value: Any = objects[0] if objects else None
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if value:
            return ".".join(path), value if isinstance(value, str) else yaml.safe_dump(value, sort_keys=False)
    return None


async def _of_scheduler(where: Where) -> dict[str, Any]:
    from unisono.api.annotations import CONFIGURATION_ERROR, CONFIGURATION_NOTES, CONFIGURATION_SOURCE, SCHEDULER_CYCLES
    from unisono.api.keys import CONFIG_MAP_KEY
    from unisono.api.kinds import LEASES
    from unisono.cli.connection import connect
    from unisono.engine.config_file.reader import config_errors, load_config
    from unisono.engine.plugins.registry import is_code
    from unisono.errors import UnisonoError
    from unisono.sdk.overview.components import trusted
    from unisono.simulator.forecast.live import configuration_in_maps

    late: list[str] = []
    async with connect(where) as client:

        async def told_by_all() -> list[dict[str, str]]:
            leases = trusted((await client.list(LEASES, label_selector=f"{SCHEDULER_CYCLES}=true")).items)
            return [lease.metadata.annotations or {} for lease in leases]

        written, _ = await configuration_in_maps(client)
        reports, caught_up = await _told_in_time(told_by_all, written.text if written else None)
        if not caught_up:
            late = ["the scheduler has not read the newest one yet: this is what it says of the one before"]
    if not reports:
        raise UnisonoError("No scheduler has told anything of its configuration: name a file with -f.")
    first = next((one for one in reports if one.get(CONFIGURATION_ERROR)), reports[0])
    error = first.get(CONFIGURATION_ERROR, "")
    if written is not None:  # the scheduler may not have told yet what it makes of the newest one, and tells one error
        errors = [str(one) for one in config_errors(written.text, CONFIG_MAP_KEY, imports=False)]
        if errors:
            return _refused(written.name, errors)
        config = load_config(written.text, CONFIG_MAP_KEY, imports=False)
        if not any(is_code(plugin.name) for plugin in config.plugins):  # those only the scheduler can import
            return {**_refused(written.name, []), "notes": list(config.notes)}
    return {
        **_refused(first.get(CONFIGURATION_SOURCE) or "the running scheduler", [error] if error else []),
        "notes": [*late, *first.get(CONFIGURATION_NOTES, "").splitlines()],
    }


async def _told_in_time(
    look: Callable[[], Awaitable[list[dict[str, str]]]], written: str | None
) -> tuple[list[dict[str, str]], bool]:
    """What schedulers tell, and whether it is of the newest text; one that has just started tells in a few seconds."""
    reports = await look()
    for _ in range(_LOOKS):
        if reports and not any(_is_behind(one, written) for one in reports):
            return reports, True
        await asyncio.sleep(_LOOK_SECONDS)
        reports = await look()
    return reports, False


def _is_behind(told: dict[str, str], written: str | None) -> bool:
    """Whether a scheduler that tells what it has read lacks the newest text: of a ConfigMap, or of its file here."""
    from hashlib import sha256

    from unisono.api.annotations import CONFIGURATION_DIGEST, CONFIGURATION_SOURCE

    read = told.get(CONFIGURATION_DIGEST, "")
    if not read:
        return False
    if written is None:
        try:
            written = Path(told.get(CONFIGURATION_SOURCE, "")).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError, ValueError):
            return False  # it stands elsewhere
    return sha256(written.encode()).hexdigest() != read


def _lines(found: dict[str, Any]) -> list[str]:
    if found["errors"]:
        refused = f"{found['source']}: {click.style('refused', fg='red', bold=True)}"
        if len(found["errors"]) == 1:
            return [f"{refused}: {found['error']}"]
        return [f"{refused}: {len(found['errors'])} errors", *(f"  {error}" for error in found["errors"])]
    lines = [f"{found['source']}: {click.style('ok', fg='green', bold=True)}"]
    if "actions" in found:
        lines.append(f"  actions: {', '.join(found['actions'])}")
        lines += [f"  tier {number}: {', '.join(tier) or 'none'}" for number, tier in enumerate(found["tiers"], 1)]
    return [*lines, *(f"  note: {note}" for note in found["notes"])]
