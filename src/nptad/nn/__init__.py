"""The paper: the model, its attention, its loss and its masks."""
