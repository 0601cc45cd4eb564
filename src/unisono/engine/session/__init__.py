"""One cycle's working state: jobs, queues, nodes and what placements change on them."""
