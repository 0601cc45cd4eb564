"""Container logs as files of this machine."""
