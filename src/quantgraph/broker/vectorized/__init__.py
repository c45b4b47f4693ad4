"""Many sessions at once, in compiled array code."""
