"""The laboratory: benchmarks and the figures of the papers. Nothing of the product imports it."""
