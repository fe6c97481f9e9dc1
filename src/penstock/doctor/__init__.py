"""Looks at a machine and at files before anything runs, and says what to change."""
