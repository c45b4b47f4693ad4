"""Helpers of the whole house: canonical JSON, files, databases, texts in two languages."""
