"""Who gets which slot, chosen anew: numpy only, from a tally of candidates to lists."""
