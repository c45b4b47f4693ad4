"""Canaries: everything after a moment is an unmistakable sentinel."""
