"""Recordings of running schedulers: repeating their cycles, and reading jobs and nodes out of them."""
