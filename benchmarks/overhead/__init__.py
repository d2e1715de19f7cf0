"""Parts of the benchmark `agent_overhead.py`."""
