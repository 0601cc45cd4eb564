"""What clients of the API do to running containers: commands, attached streams, connections."""
