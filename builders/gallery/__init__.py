"""The gallery: from pictures to candidates: filtered, deduplicated, selected."""
