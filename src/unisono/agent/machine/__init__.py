"""The machine of this agent: what it has, its processes and cgroups, and what it lets pods isolate."""
