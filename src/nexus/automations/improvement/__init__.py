"""Self-improvement: after a run that went well, a reflection may leave something learned in the workspace."""
