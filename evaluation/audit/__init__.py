"""Estimates of an audit: how many relevant pairs a set lacks, how many of its own are wrong, and what its figures would
be. Pure functions of counts and arrays."""
