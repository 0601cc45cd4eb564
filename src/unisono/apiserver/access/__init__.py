"""Access to the server: certificates, tokens, the kubeconfig, authentication and authorization."""
