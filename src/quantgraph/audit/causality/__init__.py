"""The proof that a signal uses only what was known."""
