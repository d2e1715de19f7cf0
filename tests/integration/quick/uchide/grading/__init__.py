"""Quick engine: a patch that ends in an even number resolves; QUICK_BAD names instances that fail preflight."""

import os
from typing import Any

from uchide.records import Preflight, Verdict, digest


class QuickGrader:
    name = "quick"
    version = "1"

    async def grade(self, request: Any) -> Verdict:
        good = request.patch.strip().endswith(("0", "2", "gold"))
        return Verdict(
            instance_id=request.instance.instance_id,
            patch_sha256=digest(request.patch),
            grader="quick",
            grader_version="1",
            environment="e",
            category="resolved" if good else "wrong_fix",
            fail_to_pass_failed=() if good else ("t.py::f",),
        )


def create(name: str, sandboxes: Any, cache_dir: Any, *, notice: Any) -> QuickGrader:
    return QuickGrader()


async def preflight(instance: Any, hidden: Any, grader: Any, **paths: Any) -> Preflight:
    bad = instance.instance_id.startswith("bad") or instance.instance_id in os.environ.get("QUICK_BAD", "").split()
    return Preflight(instance_id=instance.instance_id, ok=not bad, reason="gold does not resolve it" if bad else "")
