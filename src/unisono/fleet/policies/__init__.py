"""Where the jobs of a hub may go: policies, fleets, data; and which of those clusters they had better go to."""
