"""The command line: ``penstock demo``, ``run``, ``check``, ``plan``, ``simulate`` and the rest."""
