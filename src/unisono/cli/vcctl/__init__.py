"""What ``unisono job``, ``queue``, ``jobflow``, ``jobtemplate`` and ``pod`` share: ``vcctl``'s verbs and flags."""
