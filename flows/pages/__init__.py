"""The HTML pages of sets and results: images located and decoded, handed to the templates of `review`, written."""
