"""`penstock demo`: one overloaded job, without Penstock and with it, side by side.

`show` is the sequence of events; `workload` is the stream and the job; `meter` and `truth` say,
from what Spark reports and from the stream itself, how late and how wrong the results were.
"""
