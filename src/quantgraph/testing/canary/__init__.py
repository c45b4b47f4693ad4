"""Canaries: runs over data with sentinels in place of the future, and the search for them in the output."""
