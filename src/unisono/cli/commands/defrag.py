"""``unisono defrag``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unisono.cli.options import FILE, Where, file_option, output_option, where_options
from unisono.cli.overview_lines import config_of, moment_of, objects_of

if TYPE_CHECKING:
    from unisono.engine.decisions import DefragmentationPlan
    from unisono.scheduler.defragmentation import Held, Plans

# Plans of moves, for people and for programs.

_MILLI = 1000


def plans_as_json(answer: Plans) -> dict[str, Any]:
    """The answer of ``unisono defrag -o json``."""
    from unisono.api.resources import to_wire

    return {
        "fragmentation": {
            "resource": answer.resource,
            "idle": answer.idle / _MILLI,
            "onPartlyUsedNodes": answer.scattered / _MILLI,
            "share": round(answer.scattered / answer.idle, 4) if answer.idle else 0.0,
        },
        "plans": [
            {
                "podGroup": plan.job,
                "queue": plan.queue,
                "moves": [
                    {
                        "pod": move.pod,
                        "podGroup": move.job,
                        "from": move.node,
                        "to": move.to,
                        "ranSeconds": round(move.ran_seconds, 3),
                        "lostSeconds": round(move.lost_seconds, 3),
                    }
                    for move in plan.moves
                ],
                "cost": {"moves": len(plan.moves), "lostSeconds": round(plan.lost_seconds, 3)},
                "gain": {
                    "pods": len(plan.places),
                    "resources": to_wire(dict(plan.gained)),
                    "freeNodesBefore": plan.free_nodes[0],
                    "freeNodesAfter": plan.free_nodes[1],
                },
                "places": dict(sorted(plan.places.items())),
            }
            for plan in answer.plans
        ],
        "notHelped": list(answer.waiting),
        "notHelpedBecause": {
            key: {"limits": list(held.limits), "message": _held_text(held, answer)}
            for key, held in answer.waiting.items()
        },
    }


def plan_lines(answer: Plans) -> list[str]:
    """The same for people."""
    from unisono.cli.printing import columns

    lines = [
        f"{answer.scattered / _MILLI:g} of {answer.idle / _MILLI:g} idle {answer.resource} are on nodes in use in part."
    ]
    for plan in answer.plans:
        lines += ["", _headline(plan)]
        rows = [
            (move.pod, move.node, move.to, _time(move.ran_seconds), _time(move.lost_seconds)) for move in plan.moves
        ]
        lines += [f"  {line}" for line in columns(("Pod", "From", "To", "Ran", "Loses"), rows)]
    if answer.waiting:
        lines += ["", "No moves within the limits help:"]
        lines += [f"  {key}: {_held_text(held, answer)}" for key, held in answer.waiting.items()]
    if not answer.plans and not answer.waiting:
        lines.append("No gang waits.")
    return lines


def _headline(plan: DefragmentationPlan) -> str:
    moves, pods = len(plan.moves), len(plan.places)
    return (
        f"{plan.job} (queue {plan.queue}) starts with {pods} {'pod' if pods == 1 else 'pods'} when {moves} "
        f"{'pod moves' if moves == 1 else 'pods move'}, which lose {_time(plan.lost_seconds)} of work:"
    )


def _held_text(held: Held, answer: Plans) -> str:
    """``11 pods would have to move, and maxMoves is 10``; where no limit matters, why the gang waits."""
    if not held.limits:
        return f"no limit holds it: {held.message}"
    reasons = {
        "maxMoves": f"{held.moves} {'pod' if held.moves == 1 else 'pods'} would have to move",
        "minRunTime": f"a pod that would have to move has run for {_time(held.ran_seconds)}",
        "maxLostTime": f"a pod that would have to move would lose {_time(held.lost_seconds)} of work",
    }
    return "; ".join(
        f"{reasons.get(name, 'a larger bound would do')}, and {name} is {answer.limits[name]}" for name in held.limits
    )


def _time(seconds: float) -> str:
    from unisono.cli.printing import duration_text

    return duration_text(seconds)


@click.command("defrag")
@where_options
@file_option(required=False)
@click.option("--dry-run", is_flag=True, help="Show the plans; the scheduler's action defragment carries them out.")
@click.option("--config", type=FILE, help="The scheduler's configuration.  [default: the cluster's]")
@click.option("--max-moves", type=click.IntRange(1, 10_000), help="Pods moved for one gang at most.")
@click.option("--now", help="The time of the files (RFC 3339).  [default: now]")
@output_option("text", "json")
def command(
    where: Where,
    files: tuple[str, ...],
    dry_run: bool,
    config: Path | None,
    max_moves: int | None,
    now: str | None,
    output: str,
) -> None:
    """Say which pods to move so that gangs start that wait although there is enough room in all.

    Takes the state of a live cluster, or of files (-f, as kubectl get -A -o json prints them). Each plan was tried on a
    copy: the gang starts, and every moved pod finds another node. Nothing is changed anywhere.
    """
    if not dry_run:
        raise click.UsageError(
            "give --dry-run: plans are carried out by the scheduler, with defragment among the actions of its "
            "configuration."
        )
    from unisono.cli.printing import print_json
    from unisono.scheduler.defragmentation import plans_for

    used = config_of(where, files, config)
    moment = moment_of(now)
    objects = objects_of(where, files)
    answer = plans_for(objects.state().snapshot(), used, moment, max_moves)
    if output == "json":
        print_json(plans_as_json(answer))
        return
    for line in plan_lines(answer):
        click.echo(line)
