"""The agents ledger: every agent session in full."""
