"""Jobs that are stuck: whether ``unisono explain`` names the cause, and whether the fixes that it offers start them."""
