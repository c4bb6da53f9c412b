"""What an audit judges: the pool of pairs, its strata, the sample, and what people answered."""
