"""What runs at hook points: one table of automations, one runner."""
