"""``unisono sreport``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from unisono.cli.accounting.asking import history_place_options
from unisono.cli.options import Where, control_plane_options, output_option, where_options

if TYPE_CHECKING:
    from unisono.cli.accounting.asking import HistoryPlace

_REPORTS = {
    ("cluster", "utilization"): "day",
    ("cluster", "accountutilizationbyuser"): "queue",
    ("cluster", "userutilizationbyaccount"): "user",
    ("user", "topusage"): "user",
    ("job", "sizesbyaccount"): "queue",
}
_NAMED = "cluster Utilization, cluster AccountUtilizationByUser, cluster UserUtilizationByAccount, user TopUsage"


@click.command("sreport")
@click.option("-t", "hours", default="hours", metavar="UNIT", help="Accepted: hours are told.")
@click.argument("words", nargs=-1, required=True, metavar="cluster|user|job REPORT [start=TIME] [end=TIME] [...]")
@output_option("table", "csv", "json", default="table")
@history_place_options
@control_plane_options
async def command(where: Where, words: tuple[str, ...], output: str, hours: str, place: HistoryPlace) -> None:
    """Report who used how much, as Slurm's sreport does: 'unisono report' under Slurm's names.

    Reports are cluster Utilization (by day), cluster AccountUtilizationByUser and job SizesByAccount (by queue),
    cluster UserUtilizationByAccount and user TopUsage (by user). Further words are start=, end=, users= and accounts=.
    """
    from unisono.cli.commands.report import _report

    names = [word.lower() for word in words if "=" not in word]
    given = {name.lower(): value for name, _, value in (word.partition("=") for word in words if "=" in word)}
    by = _REPORTS.get((names[0], names[1])) if len(names) == 2 else None
    if by is None:
        raise click.UsageError(
            f"sreport {' '.join(names)}: there are {_NAMED}; 'unisono report --by' has further rows."
        )
    asked = {"by": by, "queue": "", "user": ""}
    for name, ours in (("accounts", "queue"), ("account", "queue"), ("users", "user"), ("user", "user")):
        asked[ours] = given.pop(name, "") or asked[ours]
    since, until = given.pop("start", "") or "yesterday", given.pop("end", "") or "now"
    if given:
        raise click.UsageError(f"{next(iter(given))}= is not read: there are start=, end=, users= and accounts=.")
    if "," in asked["queue"] or "," in asked["user"]:
        raise click.UsageError("users= and accounts= name one here; without them all are listed.")
    await _report(where, (since, until), asked, output, place)


# ``unisono sacctmgr``.

_QUEUES = {"account", "accounts", "assoc", "association", "associations", "qos"}
_ELSEWHERE = {
    "user": "users are those of the control plane; 'unisono report --by user' lists those that ran jobs",
    "cluster": "there is one cluster here; 'unisono fleet list' lists those of a fleet",
    "tres": "'unisono sinfo' lists what nodes have",
    "event": "'unisono get events' lists them",
    "reservation": "reservations are those of queues, and 'unisono get queues -o yaml' prints them",
}
_WRITES = {
    "add": "'unisono queue create -n NAME'",
    "create": "'unisono queue create -n NAME'",
    "modify": "'unisono queue update -n NAME'",
    "update": "'unisono queue update -n NAME'",
    "delete": "'unisono queue delete -n NAME'",
    "remove": "'unisono queue delete -n NAME'",
}


@click.command("sacctmgr", context_settings={"ignore_unknown_options": True})
@click.argument("verb")
@click.argument("words", nargs=-1, metavar="account|assoc|qos [NAME]")
@where_options
async def sacctmgr_command(where: Where, verb: str, words: tuple[str, ...]) -> None:
    """List accounts, associations or QOS as Slurm's sacctmgr does: queues stand for all of them.

    Verbs are show and list; queues are changed by 'unisono queue'.
    """
    from unisono.cli.commands.queue import show_list

    if verb in _WRITES:
        raise click.UsageError(f"sacctmgr {verb}: queues stand for accounts and QOS: {_WRITES[verb]} does it.")
    if verb not in ("show", "list"):
        raise click.UsageError(f"sacctmgr {verb}: there are show and list; 'unisono queue' changes queues.")
    what, *names = [word for word in words if not word.startswith("-")] or ["account"]
    if what.lower() not in _QUEUES:
        other = _ELSEWHERE.get(what.lower().removesuffix("s"), "'unisono get' lists objects of all kinds")
        raise click.UsageError(f"sacctmgr {verb} {what}: there are account, assoc and qos, which are queues; {other}.")
    names = [name.rpartition("=")[2] for name in names if not name.lower().startswith(("format=", "cluster="))]
    if len(names) > 1:
        raise click.UsageError(f"sacctmgr {verb} {what} takes one name; without a name all queues are listed.")
    await show_list(where, names[0] if names else None, "wide")
