"""`penstock run` and `penstock check`: a job file on Spark, watched until it is stopped."""
