"""The dual encoder's training: pairs, model, epochs, figures, what each part of it is worth."""
