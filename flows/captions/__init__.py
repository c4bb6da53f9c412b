"""How captions become queries: asked for, checked for rivals, planned, cut to smaller sets."""
