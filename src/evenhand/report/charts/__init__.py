"""Charts: small declarations on a few shapes; which of them suit a result, its audit says."""
