"""The stages of a generated set: rounds of questions, people's choices, the collection from the web."""
