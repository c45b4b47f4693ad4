"""Checks of market data and signals."""
