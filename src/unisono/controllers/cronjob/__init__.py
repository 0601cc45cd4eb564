"""Cron jobs of ``batch.volcano.sh``: jobs that start by the clock."""
