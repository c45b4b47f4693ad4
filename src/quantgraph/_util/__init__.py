"""Helpers of all packages: canonical JSON, files, databases, input limits, texts in two languages."""
