"""What a set shares with other collections."""
