"""The dual agent: a filter chooses whose fundamentals are read, a decision sets a target for each symbol."""
