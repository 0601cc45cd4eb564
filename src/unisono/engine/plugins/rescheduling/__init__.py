"""rescheduling: moves pods away from busy nodes."""
