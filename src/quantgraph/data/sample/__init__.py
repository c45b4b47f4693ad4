"""The embedded synthetic market."""
