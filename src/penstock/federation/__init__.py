"""Runs queries that span sites: several Spark applications, each with its own mind (THEMIS, 5.2).

``query_file`` and ``site_file`` say what people write. ``split`` cuts a query into fragments
(``fragment_plan``), ``placing`` finds sites for them, and ``confinement`` refuses SQL that does
more. ``messages`` is what sites say to each other. A site runs its fragments with
``fragment_runner``, which reads and writes ``link``; a ``coordinator`` tells all sites of a query
what its result is worth.
"""
