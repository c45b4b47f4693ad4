"""File formats of other programs: read, written and verified."""
