"""Measures what it costs to watch a federation: many made-up sites, one oracle, a browser."""
