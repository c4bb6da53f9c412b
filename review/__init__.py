"""What people look at and judge on: pages made of a set's tables, without opening a file."""
