"""Moving running pods together, so that a gang that waits finds whole GPUs, whole nodes or a whole domain."""
