"""Folds, scores, distances and p-values."""
