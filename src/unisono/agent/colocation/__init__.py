"""Online and offline pods on one machine: what it lends, who gives way, and when offline pods are evicted."""
