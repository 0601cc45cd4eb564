"""Resource quotas: what objects use, what a quota counts, and accounts that change together with the objects."""
