"""CPUs of this machine that containers have for themselves, by the rules of the kubelet's managers."""
