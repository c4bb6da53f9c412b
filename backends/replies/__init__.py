"""What goes to a chat model, and what came back: kept before it is read."""
