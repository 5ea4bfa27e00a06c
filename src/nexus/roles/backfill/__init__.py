"""Backfill: the memory writer reads imported conversations, at the pace and price that the owner chooses."""
