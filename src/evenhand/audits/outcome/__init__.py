"""The outcome test and what follows from it: counterfactual allocations and recalibrated scores."""
