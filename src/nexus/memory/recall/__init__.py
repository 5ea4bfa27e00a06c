"""Recall: find the right few things, fast, and say why. No language model is called."""
