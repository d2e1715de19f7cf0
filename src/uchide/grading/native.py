"""The native grader: fresh sandbox, patch without what it may not touch, hidden tests by content, ids checked outside.

Rules. An id counts only when its own result says `passed`: the lists of an instance hold ids that passed with the gold
patch in the same environment, so skipped, xfailed and xpassed are changes that the patch made. What a test prints,
and lines about other tests, decide nothing. A run that did not come to its end has no results.
Limit known and accepted: the code under test runs in the test process and can rewrite the runner from within.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from uchide.errors import GraderError, PatchError, SandboxError
from uchide.grading.cache import VerdictCache
from uchide.patches.normalise import normalise
from uchide.protocols import GradeRequest, Sandbox, SandboxProvider
from uchide.records import Category, HiddenInstance, Verdict, digest
from uchide.testing.guard import hidden_guard
from uchide.testing.runs import TestRun, run_ids
from uchide.testing.spec import instance_spec
from uchide.testing.worktree import apply_patch, lay_files

VERSION = "1"
LISTED = 5


@dataclass(frozen=True)
class NativeLimits:
    """Wall seconds, and how often a failed sandbox is tried again."""

    per_test_s: float = 30.0
    start_s: float = 60.0
    """Importing one test file."""
    hang_s: float = 100.0
    """After this time a run in which a test was already over its limit is not waited for."""
    run_s: float = 1800.0
    retries: int = 2


@dataclass(frozen=True)
class Spent:
    """What the sandboxes of one verdict cost, in seconds."""

    cpu_s: float = 0.0
    wall_s: float = 0.0


class NativeGrader:
    """Runs the hidden tests of an instance in a sandbox of this host."""

    name = "native"
    version = VERSION

    def __init__(
        self, sandboxes: SandboxProvider, cache_dir: Path, *, limits: NativeLimits | None = None,
        notice: Callable[[str], None] = lambda _: None,
    ) -> None:  # fmt: skip
        self._sandboxes = sandboxes
        self._cache = VerdictCache(cache_dir / "verdicts", notice)
        self._limits = limits or NativeLimits()

    async def grade(self, request: GradeRequest) -> Verdict:
        """The verdict; `infra` when the sandbox failed again and again.

        Neither that nor a time-out is kept in the cache: a busy host may be the reason for both.
        """
        if not request.patch.strip() and not request.force:
            return self._verdict(request, "empty_patch", message="the patch is empty")
        key = verdict_key(request, self.name, self.version)
        if cached := self._cache.get(key):
            return cached.model_copy(update={"cached": True})
        verdict = await self._judge_patiently(request)
        if verdict.category not in ("infra", "timeout"):
            self._cache.put(key, verdict)
        return verdict

    async def _judge_patiently(self, request: GradeRequest) -> Verdict:
        problem = ""
        for _ in range(self._limits.retries + 1):
            try:
                return await self._judge(request)
            except (SandboxError, GraderError) as error:
                problem = str(error)
        return self._verdict(request, "infra", message=problem)

    async def _judge(self, request: GradeRequest) -> Verdict:
        began = time.monotonic()
        spec = instance_spec(request.instance, request.tree, request.environment, request.python_home)
        async with self._sandboxes.open(spec) as sandbox:
            try:
                refused = await self._prepare(sandbox, request)
            except PatchError as error:
                return self._verdict(request, "patch_did_not_apply", message=str(error))
            run = await self._run(sandbox, request)
            spent = Spent(await sandbox.cpu_seconds(), time.monotonic() - began)
        if not run.timed_out and not reached(request.hidden, run):
            await self._check_harness(request)
        verdict = judge(request.hidden, run)
        message = "\n".join(part for part in (verdict.message, _refusals(refused)) if part)
        return self._verdict(
            request, verdict.category, failed=(verdict.fail_to_pass, verdict.pass_to_pass), message=message, spent=spent
        )

    async def _prepare(self, sandbox: Sandbox, request: GradeRequest) -> tuple[str, ...]:
        refused: tuple[str, ...] = ()
        if request.patch.strip():
            guard = hidden_guard(request.instance, request.hidden)
            refused = await apply_patch(sandbox, normalise(request.patch), guard)
        try:
            await lay_files(sandbox, request.hidden.test_files)
        except PatchError as error:
            raise GraderError(f"hidden tests of {request.hidden.instance_id}: {error}") from error
        return refused

    async def _run(self, sandbox: Sandbox, request: GradeRequest) -> TestRun:
        """Run every expected id. A first, short try keeps a patch that hangs everywhere from costing hours."""
        limits = self._limits
        runner = request.instance.environment.runner
        ids = list(dict.fromkeys(request.hidden.fail_to_pass + request.hidden.pass_to_pass))
        for limit in (limits.hang_s, limits.run_s):
            run = await run_ids(
                sandbox,
                runner,
                ids,
                timeout_s=limit,
                per_test_timeout_s=limits.per_test_s,
                start_timeout_s=limits.start_s,
            )
            hangs = any(result.status == "timeout" and result.phase for result in run.results.values())
            if hangs or not run.timed_out:
                break
        return run

    async def _check_harness(self, request: GradeRequest) -> None:
        """No test ran: was it the patch, or us? Raises GraderError when none runs on the unpatched tree either.

        A tree on which only FAIL_TO_PASS tests could run may rightly refuse them all.
        """
        spec = instance_spec(request.instance, request.tree, request.environment, request.python_home)
        async with self._sandboxes.open(spec) as sandbox:
            await lay_files(sandbox, request.hidden.test_files)
            run = await self._run(sandbox, request)
        excused = run.timed_out or (run.complete and not request.hidden.pass_to_pass)
        if not excused and not (run.complete and reached(request.hidden, run)):
            raise GraderError(
                f"the tests of {request.hidden.instance_id} do not run on the unpatched tree either: "
                + (_reasons(run, request.hidden.pass_to_pass[:1]) or run.console)
            )

    def _verdict(
        self, request: GradeRequest, category: Category, *, failed: tuple[tuple[str, ...], tuple[str, ...]] = ((), ()),
        message: str = "", spent: Spent = Spent(),
    ) -> Verdict:  # fmt: skip
        return Verdict(
            instance_id=request.instance.instance_id,
            patch_sha256=digest(request.patch),
            grader=self.name,
            grader_version=self.version,
            environment=request.instance.environment.key,
            category=category,
            fail_to_pass_failed=failed[0],
            pass_to_pass_failed=failed[1],
            message=message[:4000],
            cpu_seconds=spent.cpu_s,
            wall_seconds=spent.wall_s,
        )


@dataclass(frozen=True)
class Judgement:
    """A category with the expected ids that did not pass."""

    category: Category
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    message: str


def judge(hidden: HiddenInstance, run: TestRun) -> Judgement:
    """Exactly one category, the first that fits: resolved, timeout, no_results, wrong_fix, regression."""
    statuses = run.statuses if run.complete or run.timed_out else {}
    f2p = tuple(test for test in hidden.fail_to_pass if statuses.get(test) != "passed")
    p2p = tuple(test for test in hidden.pass_to_pass if statuses.get(test) != "passed")
    late = any(statuses.get(test) == "timeout" for test in f2p + p2p)
    category: Category
    if run.complete and statuses and not f2p and not p2p:
        category = "resolved"
    elif run.timed_out or late:
        category = "timeout"
    elif not reached(hidden, run):
        category = "no_results"
    else:
        category = "wrong_fix" if f2p else "regression"
    return Judgement(category, f2p, p2p, _reasons(run, f2p + p2p) or ("" if category == "resolved" else run.console))


def reached(hidden: HiddenInstance, run: TestRun) -> bool:
    """Whether the body of at least one expected test was reached, as far as the run can be relied on."""
    if not run.complete and not run.timed_out:
        return False
    expected = {*hidden.fail_to_pass, *hidden.pass_to_pass}
    return any(result.ran for test, result in run.results.items() if test in expected)


def verdict_key(request: GradeRequest, grader: str, version: str) -> str:
    """Everything that a verdict depends on."""
    instance = request.instance
    return digest(
        {
            "patch": digest(request.patch),
            "instance": instance.instance_id,
            "hidden": digest(request.hidden),
            "tree": instance.tree,
            "environment": digest(instance.environment),
            "grader": [grader, version],
        }
    )


def _reasons(run: TestRun, tests: tuple[str, ...]) -> str:
    lines = []
    for test in tests[:LISTED]:
        result = run.results.get(test)
        first = result.message.strip().splitlines()[:1] if result else []
        lines.append(": ".join([f"{result.status if result else 'not_found'} {test}", *first]))
    if len(tests) > LISTED:
        lines.append(f"and {len(tests) - LISTED} more")
    return "\n".join(lines)


def _refusals(paths: tuple[str, ...]) -> str:
    return f"left out of the patch: {', '.join(paths)}" if paths else ""
