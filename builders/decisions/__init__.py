"""What people decide about a set: the records of its logs, which of them count, and their application to tables."""
