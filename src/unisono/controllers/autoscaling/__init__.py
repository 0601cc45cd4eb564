"""Replicas that follow load: HorizontalPodAutoscalers, KEDA's ScaledObjects and Knative's Services on one machine."""
