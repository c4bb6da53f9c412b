"""HTTP with limits on time and on patience."""
