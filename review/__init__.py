"""The pages on which people read and judge a set, rendered from its tables. Nothing here opens a file of a set."""
