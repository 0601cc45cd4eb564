"""Decisions, pure: session, transaction, actions, plug-ins and verdicts."""
