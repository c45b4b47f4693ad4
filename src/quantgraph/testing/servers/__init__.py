"""Stub servers for tests, on loopback."""
