"""Generated sets: topics and objects from a chat model, images from an image search."""
