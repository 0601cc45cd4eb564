"""resourcequota: admits jobs as far as ResourceQuotas let them."""
