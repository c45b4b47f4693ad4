"""AI-Trader's ledger, ``position.jsonl``."""
