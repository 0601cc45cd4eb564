"""Budgets: what was used is counted, kept and told."""
