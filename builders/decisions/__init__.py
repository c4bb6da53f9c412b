"""Decisions of people on a set: the records of the logs, which of them are effective, and their application."""
