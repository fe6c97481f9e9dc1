"""What a site writes down: the ledger, totals, what it has learnt, and how a crash is mended."""
