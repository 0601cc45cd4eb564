"""What the server asks of node agents: logs, commands and connections of pods."""
