"""How captions become queries: requested, checked for ambiguity, planned, cut to smaller sets."""
