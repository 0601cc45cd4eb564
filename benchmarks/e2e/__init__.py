"""What a whole control plane does per second: scheduler, controllers and simulated nodes against an API server."""
