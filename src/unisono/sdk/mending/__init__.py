"""Fixes that are tried on a copy of the cluster until the job runs."""
