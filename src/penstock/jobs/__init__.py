"""Job files are what ``penstock run`` and ``penstock check`` read; docs/jobs.md explains them."""
