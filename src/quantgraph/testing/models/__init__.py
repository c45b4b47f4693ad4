"""Chat models for tests: scripted, faulty, misbehaving."""
