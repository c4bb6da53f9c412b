"""What becomes of pictures in every build: read, compared, embedded, rendered."""
