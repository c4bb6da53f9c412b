"""Whether the queries of a set can be answered without a look at the images."""
