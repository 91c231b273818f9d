"""A saved model behind HTTP: rows in, scores and reasons out."""
