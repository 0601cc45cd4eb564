"""predicates: the filters of kube-scheduler, with volumes and device claims."""
