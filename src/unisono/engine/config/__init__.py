"""The scheduler's configuration as plain data: actions, plug-ins, switches and arguments."""
