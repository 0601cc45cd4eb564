"""Scheduling quality on recorded workloads, beside published figures and bounds: suites Q1 to Q8."""
