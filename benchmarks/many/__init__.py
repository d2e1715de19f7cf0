"""Parts of the benchmark `concurrency.py`."""
