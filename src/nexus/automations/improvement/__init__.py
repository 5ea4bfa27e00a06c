"""Self-improvement: after a run for the owner, a reflection may leave something learned in the workspace."""
