"""The generated set: topics and objects from a chat model, pictures from the web."""
