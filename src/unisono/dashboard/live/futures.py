"""What would happen if: the scheduler's engine on a copy of what a viewer sees, in a process of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from unisono.api.verdict import job_name
from unisono.api.yaml import load_all
from unisono.dashboard.live.elsewhere import CannotTell, elsewhere
from unisono.dashboard.views.wire import ConfigurationView, Futures, Moved
from unisono.engine.plugins.registry import is_code
from unisono.errors import ConfigError
from unisono.simulator.forecast.live import list_objects

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient
    from unisono.simulator.forecast.live import LiveObjects

_FUTURES = 9
"""Of fewer the first and the last are no interval of 80 %."""
_UNTIL_SECONDS = 4 * 3600.0
_CPU_SECONDS = 20.0
"""CPU time that an answer may take; the fast model's comes before."""
_MOST_SHOWN, _MOST_STARTS = 200, 5000
"""Jobs that a change moves, and jobs whose start is told to the table of jobs."""


async def futures(client: HttpClient, text: str, configuration: ConfigurationView) -> Futures:
    """When waiting jobs start, as the cluster is and with changes.

    Args:
        client: with the viewer's credentials: what the viewer may not list, nothing can be said about.
        text: changes as ``unisono whatif`` takes them; empty for none.
        configuration: the scheduler's, with which both sides begin.

    Raises:
        ConfigError: the text is no YAML.
        CannotTell: it names what does not exist, or the answer takes too long.
        ApiError: the viewer may not see the whole cluster.
    """
    documents = await asyncio.to_thread(_documents, text)
    objects = await list_objects(client)
    return msgspec.convert(
        await elsewhere("unisono whatif", ask, objects, documents, configuration, time.time()), Futures
    )


def _documents(text: str) -> list[tuple[dict[str, Any], str]]:
    documents = []
    for document in load_all(text, "changes"):
        if not isinstance(document.value, dict):
            raise ConfigError("give objects, nodes, or a scheduler configuration", file="changes", line=document.line)
        if _names_code(document.value):
            raise CannotTell(
                "Plug-ins of modules (module:Class) are code, and are not taken from this page: ask 'unisono whatif'."
            )
        documents.append((document.value, f"changes:{document.line}"))
    return documents


def _names_code(value: dict[str, Any]) -> bool:
    """Whether a configuration names a plug-in of a module, which would be imported into the dashboard's process."""
    return "kind" not in value and any(is_code(text.strip()) for text in _names(value))


def _names(value: Any) -> Iterator[str]:
    """Texts that may be names: in lists, and of keys ``name``."""
    todo, seen = [value], set[int]()
    while todo:
        at = todo.pop()
        if not isinstance(at, dict | list) or id(at) in seen:
            continue
        seen.add(id(at))
        within = at.items() if isinstance(at, dict) else (("name", each) for each in at)
        for key, each in within:
            if isinstance(each, str) and str(key).lower() == "name":
                yield each
            todo.append(each)


def ask(
    objects: LiveObjects, documents: Sequence[tuple[dict[str, Any], str]], configuration: ConfigurationView, now: float
) -> Futures:
    """Simulate both sides.

    Raises:
        UnisonoError: a document is no change.
    """
    from unisono.engine.config_file.reader import default_config, load_config
    from unisono.simulator.forecast.forecast import Budget, forecast
    from unisono.simulator.forecast.whatif import apply_changes, what_if

    name = configuration.name
    try:
        config = load_config(configuration.text, name)
    except ConfigError as error:
        config, name = default_config(), f"the default configuration, since the one in force is refused: {error}"
    budget = Budget.of(_CPU_SECONDS, time.process_time)
    common: dict[str, Any] = {"futures": _FUTURES, "until": _UNTIL_SECONDS, "budget": budget}
    if not documents:
        said = forecast(objects, config, now, **common, whole=False)
        moved = [_moved(each.key, each, each) for each in said.starts[:_MOST_STARTS]]
        return Futures([], name, len(said.runs), _UNTIL_SECONDS, moved, [], said.source)
    changed = apply_changes(objects, documents)
    outcome = what_if(objects, config, now, changed, **common)
    return Futures(
        told=list(outcome.told),
        configuration=name,
        futures=outcome.futures,
        until=outcome.until,
        moved=[_moved(each.key, each.before, each.after) for each in outcome.moved[:_MOST_SHOWN]],
        evicted=list(outcome.evicted[:_MOST_SHOWN]),
        source=outcome.source,
    )


def _moved(key: str, before: Any, after: Any) -> Moved:
    def median(start: Any) -> float:
        return -1.0 if start is None or start.median is None else float(start.median)

    estimate = after if after is not None else before
    return Moved(
        job=key,
        name=job_name(key),
        queue=estimate.queue,
        before=median(before),
        after=median(after),
        low=-1.0 if after is None or after.low is None else after.low,
        high=-1.0 if after is None or after.high is None else after.high,
        known=estimate.known,
    )
