"""drf: dominant resource fairness among jobs, and among queues that form a tree."""
