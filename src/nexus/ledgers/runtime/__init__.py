"""The runtime ledger: what the program did and what it cost."""
