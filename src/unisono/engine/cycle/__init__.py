"""What all actions of one cycle work with: placements that can be undone, and reports on what found no place."""
