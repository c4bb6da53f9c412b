"""Vectors of pictures and texts: kept, and searched for neighbours."""
