"""Files to which lines are only ever added: what a long run has done so far."""
