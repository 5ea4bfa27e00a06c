"""Evaluation: plays recorded conversations through a real home, and scores what the memory made of them."""
