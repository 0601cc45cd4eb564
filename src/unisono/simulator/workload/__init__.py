"""Workloads: the job record, its native form, readers of public traces, generators."""
