"""Settling: reads again what was shed, and gives windows the results that they would have had."""
