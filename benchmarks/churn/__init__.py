"""A cluster that lives long: many short pods, and what stays in memory and on disk afterwards."""
