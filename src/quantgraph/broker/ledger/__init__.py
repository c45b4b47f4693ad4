"""The ledger: an append-only journal of runs."""
