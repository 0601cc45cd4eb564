"""gpu-placement: rules from the literature for choosing nodes with GPUs, to compare others with."""
