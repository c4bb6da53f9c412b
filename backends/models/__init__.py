"""Models on this machine: their folders, revisions, inputs and generation."""
