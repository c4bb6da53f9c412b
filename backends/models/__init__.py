"""Models that run on this machine: files, revisions, inputs and generation."""
