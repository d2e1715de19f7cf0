"""Quick engine: suites pass every patch that resolves."""

from typing import Any

from uchide.records import Matrix, PatchEntry, SuiteEntry, TestEntry


async def build(instance: Any, arm: str, candidates: Any, *rest: Any) -> Matrix:
    patches: dict[str, list[Any]] = {}
    for candidate in candidates:
        patches.setdefault(candidate.patch_sha256, []).append(candidate)
    tests = tuple(
        TestEntry(id=f"t.py::{name}", kind=kind, base=(status,), own_patch=("passed",))
        for name, kind, status in (("a", "fail_to_pass", "failed"), ("b", "pass_to_pass", "passed"))
    )
    suites = tuple(
        SuiteEntry(suite_sha256=c.suite_sha256, runs=(c.run,), admitted=True, tests=tests) for c in candidates
    )
    outcomes = {
        sha: {
            suite.suite_sha256: {
                "t.py::a": "failed" if many[0].patch.strip().endswith("1") else "passed",
                "t.py::b": "passed",
            }
            for suite in suites
        }
        for sha, many in patches.items()
    }
    return Matrix(
        instance_id=instance.instance_id,
        arm=arm,
        patches=tuple(
            PatchEntry(patch_sha256=sha, runs=tuple(c.run for c in many), chars=len(many[0].patch), applies=True)
            for sha, many in patches.items()
        ),
        suites=suites,
        outcomes=outcomes,
    )
