"""Reference systems that show what a figure is worth: the floor (random), the ceiling (oracle), and what words alone
find (lexical)."""
