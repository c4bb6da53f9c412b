"""Requests to chat models and their stored answers."""
