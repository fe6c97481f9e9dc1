"""Job files: what ``penstock run`` and ``penstock check`` read. See docs/jobs.md."""

from penstock.job_file.load import Loaded, load
from penstock.job_file.model import Job

__all__ = ["Job", "Loaded", "load"]
