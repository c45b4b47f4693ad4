"""News for a model that decides: its sources, their ranking, and the one gate that all of them pass."""
