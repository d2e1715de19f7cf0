"""How the harness runs tests in a sandbox: the tree made ready, ids in, structured results out."""

from uchide.testing.results import TestResult
from uchide.testing.runs import TestRun, run_ids
from uchide.testing.spec import instance_spec

__all__ = ["TestResult", "TestRun", "instance_spec", "run_ids"]
