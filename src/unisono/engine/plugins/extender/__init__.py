"""extender: asks a service over HTTP."""
