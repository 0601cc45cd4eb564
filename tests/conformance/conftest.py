"""Counts conformance cases and prints ``passed/total`` last."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

OUTCOMES: dict[str, Counter[str]] = defaultdict(Counter)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    form = dict(report.user_properties).get("conformance_form")
    if form and (report.when == "call" or (report.when == "setup" and report.outcome != "passed")):
        OUTCOMES[str(form)][report.outcome] += 1


def pytest_unconfigure(config: pytest.Config) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    for form in sorted(OUTCOMES):  # "differential" before "recorded", which is the one to read last
        counts = OUTCOMES[form]
        reporter.write_line(
            f"{form} cases: {counts['passed']} passed, {counts['failed']} failed, "
            f"{counts['skipped']} not available or known to differ"
        )
        reporter.write_line(f"{counts['passed']}/{counts.total()}")
