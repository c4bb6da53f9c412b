"""The dual encoder's training: pairs, model, epochs, figures, ablation."""
