"""From a metric and a tally to an estimate with its interval."""
