"""Image files: read, decoded and rendered."""
