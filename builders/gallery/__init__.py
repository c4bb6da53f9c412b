"""The gallery of a set: images are filtered, deduplicated and selected."""
