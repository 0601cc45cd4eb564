"""Rules of cron jobs, job flows and hyper jobs in CEL."""

from __future__ import annotations

from unisono.api.policies.rule import MANY, Rule, entries, given, text
from unisono.api.validation.flow import LONGEST_CRON_JOB


def cron_job_rules() -> tuple[Rule, ...]:
    """Name, schedule and time zone."""
    spec = "object.spec"
    return (
        Rule(
            f"size(object.metadata.name) <= {LONGEST_CRON_JOB}",
            text(
                "metadata.name: cronJob name must be no more than 52 characters to accommodate job name suffix "
                "(max 63 total)"
            ),
        ),
        Rule(
            f"!has({spec}.schedule) || !{spec}.schedule.contains('TZ=')",
            text(
                "spec.schedule: schedule should not contain TZ or CRON_TZ, TZ should only be set in the timeZone field"
            ),
        ),
        Rule(
            f"!has({spec}.timeZone) || {spec}.timeZone != ''",
            text("spec.timeZone: timeZone must be nil or non-empty string, got empty string"),
        ),
        Rule(
            f"!has({spec}.timeZone) || {spec}.timeZone.lowerAscii() != 'local'",
            text("spec.timeZone: timeZone can't be Local, and must be defined in https://www.iana.org/time-zones"),
        ),
    )


def job_flow_rules() -> tuple[Rule, ...]:
    """Flows depend on flows of the same JobFlow, and not on themselves; longer circles are the webhook's to find."""
    flows, depends = entries("variables.spec.flows"), "f.dependsOn"
    targets = f"(has({depends}) ? {entries(f'{depends}.targets')} : [])"
    known = f"{targets}.all(n, {flows}.exists(g, g.name == n))"
    missing = f"{flows}.filter(f, !({known}))[0].dependsOn.targets.filter(n, !{flows}.exists(g, g.name == n))[0]"
    return (
        Rule(
            f"size({flows}) > {MANY} || {flows}.all(f, {known})",
            text("spec.flows: jobflow Flow is not DAG: vertex is not defined: ") + f" + {missing}",
        ),
        Rule(f"{flows}.all(f, !(f.name in {targets}))", text("spec.flows: jobflow Flow is not DAG")),
    )


def hyper_job_rules() -> tuple[Rule, ...]:
    """Replicated jobs have names of their own, and tasks."""
    jobs, spec = entries("variables.spec.replicatedJobs"), "j.templateSpec"
    return (
        Rule(
            f"size({jobs}) > {MANY} || {jobs}.all(j, !{given('j.name')} || "
            f"{jobs}.exists_one(i, has(i.name) && i.name == j.name))",
            text("spec.replicatedJobs: names of replicated jobs must differ"),
        ),
        Rule(
            f"{jobs}.all(j, !has({spec}) || size({entries(f'{spec}.tasks')}) > 0)",
            text("spec.replicatedJobs.templateSpec.tasks: No task specified in job spec"),
        ),
    )
