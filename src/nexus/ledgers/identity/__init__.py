"""The identity ledger: who and what there is."""
