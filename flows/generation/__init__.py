"""The stages of a generated set: rounds of questions, what people kept, what the web answered."""
