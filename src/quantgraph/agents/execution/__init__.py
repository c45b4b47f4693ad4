"""The stepwise agent: it thinks, acts and observes, one symbol at a time, and everything it did is kept."""
