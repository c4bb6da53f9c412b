"""What the review page reads and writes: the views of a set, of a gallery and of a table of topics or objects."""
