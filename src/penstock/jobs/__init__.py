"""Job files: what ``penstock run`` and ``penstock check`` read. See docs/jobs.md."""
