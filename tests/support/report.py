"""Made-up experiments for the report: a tiny one built cell by cell, and a realistic one of any size."""

import random
from collections.abc import Sequence
from pathlib import Path

from uchide.agents.trajectory import EndRecord, HeaderRecord, PhaseRecord, TrajectoryWriter, TurnRecord
from uchide.records import (
    Candidate,
    Environment,
    Excluded,
    Graded,
    Issue,
    Matrix,
    PatchEntry,
    Pick,
    PickGraded,
    Preflight,
    PublicInstance,
    Suite,
    SuiteEntry,
    TestEntry,
    Usage,
    Verdict,
    digest,
)
from uchide.report import ArmInputs, ArtifactRef, ReportInputs, StageTime

RUNS = tuple(f"r{n:02d}_s{1000 + n}" for n in range(1, 9))
PHASES = (
    "ISSUE_REPRODUCE", "TEST_SYNTHESIZE", "CODE_LOCALIZE", "TEST_LOCALIZE", "CODE_FIX", "VERIFY_PATCH", "ISSUE_CLOSE",
    "FINAL_REPORT",
)  # fmt: skip
REPOS = ("pallets/click", "psf/requests", "python-attrs/attrs", "more-itertools/more-itertools", "agronholm/anyio")


def instance(instance_id: str, text: str = "It breaks.", repo: str = "acme/widgets") -> PublicInstance:
    return PublicInstance(
        issue=Issue(instance_id=instance_id, repo=repo, problem_statement=text),
        environment=Environment(key="e" * 64, python="3.11.9"),
        tree="t" * 64,
    )


def candidate(run: str, instance_id: str, patch: str, arm: str = "main", **more) -> Candidate:
    suite = more.pop("suite", Suite(instance_id=instance_id))
    fields = {
        "arm": arm,
        "run": run,
        "seed": int(run[-4:]),
        "exit_status": "completed" if patch else "gave_up",
        "turns": 12,
        "usage": Usage(calls=12, prompt_tokens=1000, completion_tokens=100),
        "trajectory": f"trajectories/{arm}.{run}.{instance_id}.jsonl.zst",
        "trajectory_sha256": "0" * 64,
        "phases": PHASES,
    }
    return Candidate(
        candidate_id=f"{arm}.{run}.{instance_id}",
        instance_id=instance_id,
        patch=patch,
        patch_sha256=digest(patch),
        suite=suite,
        suite_sha256=suite.sha256,
        **(fields | more),
    )


def verdict(made: Candidate, category: str, **more) -> Verdict:
    return Verdict(
        instance_id=made.instance_id,
        patch_sha256=made.patch_sha256,
        grader="native",
        grader_version="1",
        environment="e" * 64,
        category=category,
        **more,
    )


def graded(made: Candidate, category: str, **more) -> Graded:
    return Graded(
        candidate_id=made.candidate_id,
        instance_id=made.instance_id,
        arm=made.arm,
        run=made.run,
        verdict=verdict(made, category, **more),
    )


def picked(selector: str, row: Graded, made: Candidate, tied: Sequence[str] = ()) -> PickGraded:
    pick = Pick(
        instance_id=row.instance_id,
        arm=row.arm,
        selector=selector,
        run=row.run,
        patch_sha256=made.patch_sha256,
        tied=tuple(tied) or (made.patch_sha256,),
    )
    return PickGraded(pick=pick, verdict=row.verdict)


def abstained(selector: str, instance_id: str, arm: str = "main") -> PickGraded:
    pick = Pick(
        instance_id=instance_id,
        arm=arm,
        selector=selector,
        run=None,
        patch_sha256=None,
        reason="no suite was admitted",
    )
    return PickGraded(pick=pick, verdict=None)


def write_trajectory(path: Path, made: Candidate, turns: Sequence[TurnRecord], *, ended: bool = True) -> Path:
    header = {name: getattr(made, name) for name in ("candidate_id", "arm", "run", "seed", "instance_id")}
    with TrajectoryWriter(path) as writer:
        writer.write(HeaderRecord(**header, agent="phases", model="mutator", base_tree="0" * 40))
        for now, after in zip(turns, [*turns[1:], None], strict=True):
            writer.write(now)
            if after is None or after.phase != now.phase:
                upcoming = after.phase if after else None
                writer.write(PhaseRecord(phase=now.phase, visit=now.visit, exit="complete", next=upcoming, turns=1))
        if ended:
            writer.write(
                EndRecord(exit_status=made.exit_status, turns=len(turns), format_errors=0, usage=made.usage, t=9.0)
            )
    return path


def turn(n: int, phase: str, **more) -> TurnRecord:
    fields = {
        "reply": f"WORKFLOW: W1\nTHOUGHT: step {n}\nFINAL_ANSWER:\n<tool: bash> ls {n} </tool>",
        "token": "W1",
        "action": f"ls {n}",
        "returncode": 0,
        "observation": "<returncode>0</returncode>\n<output>\na.py\nb.py\n</output>",
        "t": 0.5 * n,
    }
    return TurnRecord(n=n, phase=phase, visit=1, **(fields | more))


# --- a realistic one --------------------------------------------------------------------------------------------------
def realistic(folder: Path, n: int = 20, k: int = 8, seed: int = 7) -> ReportInputs:
    """`n` instances x `k` runs with everything a page can show; trajectories are written under `folder`."""
    rng = random.Random(seed)
    instances = [realistic_instance(rng, number) for number in range(n)]
    rows = [realistic_rows(rng, inst, RUNS[:k]) for inst in instances]
    candidates = [made for row in rows for made in row[0]]
    trajectories = {c.candidate_id: realistic_trajectory(rng, c, folder / f"{c.candidate_id}.zst") for c in candidates}
    arm = ArmInputs(
        name="main",
        runs=RUNS[:k],
        candidates=candidates,
        graded=[g for row in rows for g in row[1]],
        matrices=[row[2] for row in rows if row[2]],
        picks=[p for row in rows for p in row[3]],
        agent="phases",
        model="mutator",
    )
    return ReportInputs(
        experiment="release-bugs",
        title="Twenty release bugs, eight runs",
        description="Real bugs between two releases of twenty small Python packages, repaired by `mutator`.",
        arms=(arm,),
        instances=instances,
        excluded=[Excluded(instance_id="parso__parso-0.8.1", reason="gold patch does not resolve on Python 3.13")],
        preflight=[Preflight(instance_id=i.instance_id, ok=True) for i in instances],
        times=realistic_times(),
        artifacts=[
            ArtifactRef("prepare-public", digest("p"), digest("pd"), "release-bugs-old", "0.1.0+1a2b3c4"),
            *(
                ArtifactRef(f"bench-generate.main.{run}.s000", digest(run), digest(run + "d"), "", "0.1.0+1a2b3c4")
                for run in RUNS[:k]
            ),
            ArtifactRef("tts-pick.main", digest("t"), digest("td"), "", "0.1.0+1a2b3c4"),
        ],
        versions={
            "uchide": "0.1.0",
            "python": "3.11.9",
            "grader native": "1",
            "snakemake": "9.27.0",
            "bwrap": "0.11.0",
        },
        command="git checkout 1a2b3c4 && uchide run experiments/release-bugs.yaml",
        spec="name: release-bugs\ndataset: release-bugs\nruns: 8\nagent: phases\nmodel: mutator\n",
        trajectories=trajectories,
    )


def realistic_times() -> list[StageTime]:
    return [
        StageTime("prepare", 211.4, 240.1),
        StageTime("test", 63.2, 71.0),
        *(StageTime("bench", 190.2 + n, 230.4, "main", "generate") for n in range(8)),
        *(StageTime("bench", 41.3, 44.4, "main", "grade") for _ in range(8)),
        StageTime("tts", 520.7, 560.3, "main", "matrix"),
        StageTime("tts", 0.8, 0.9, "main", "pick"),
        StageTime("tts", 0.2, 0.3, "main", "grade"),
    ]


def realistic_instance(rng: random.Random, number: int) -> PublicInstance:
    repo = REPOS[number % len(REPOS)]
    name = repo.rpartition("/")[2]
    statement = (
        f"{name}: `take_while` drops the last element when the predicate raises\n\n"
        "After upgrading I noticed that the last element is silently dropped.\n\n```python\n"
        ">>> from pkg import take_while\n>>> list(take_while(lambda x: x < 3, [1, 2, 3]))\n[1]\n```\n\n"
        "I would expect `[1, 2]` as the documentation says. It worked in the previous release.\n"
        + "Some more context that a reporter would write. "
        * rng.randrange(1, 12)
    )
    issue = Issue(
        instance_id=f"{name}__{name}-{rng.randrange(100, 3000)}.{number}",
        repo=repo,
        problem_statement=statement,
        snippet="from pkg import take_while\nprint(list(take_while(lambda x: x < 3, [1, 2, 3])))\n",
        observed="[1]",
        expected="[1, 2]",
    )
    return PublicInstance(issue=issue, environment=Environment(key=digest(repo), python="3.11.9"), tree=digest(issue))


def realistic_patch(number: int, variant: int) -> str:
    context = "".join(f"     line_{n} = compute({n}, mode='fast')\n" for n in range(variant, variant + 3))
    return (
        f"diff --git a/src/pkg/core_{number}.py b/src/pkg/core_{number}.py\n--- a/src/pkg/core_{number}.py\n"
        f"+++ b/src/pkg/core_{number}.py\n@@ -{20 + variant},7 +{20 + variant},7 @@ def take_while(predicate, items):\n"
        f"{context}-        if not predicate(item) or index < len(items) - {variant}:\n"
        f"+        if not predicate(item) or index < len(items) - {variant + 1}:\n{context}"
    )


def realistic_rows(rng: random.Random, inst: PublicInstance, runs: Sequence[str]):
    i, number = inst.instance_id, int(inst.instance_id.rpartition(".")[2])
    hardness = rng.choice((0.0, 0.15, 0.4, 0.75, 1.0))
    variants = {v: realistic_patch(number, v) for v in range(1, 6)}
    good = {v for v in variants if rng.random() < hardness}
    candidates, rows, suites = [], [], []
    for run in runs:
        empty, broken = rng.random() < 0.12, rng.random() < 0.015
        v = rng.choice(tuple(variants))
        suite = Suite(
            instance_id=i,
            fail_to_pass=(f"tests/test_uchide_{run}.py::test_reported",),
            pass_to_pass=tuple(f"tests/test_core.py::test_case_{n}" for n in sorted(rng.sample(range(60), 12))),
        )
        made = candidate(
            run,
            i,
            "" if empty or broken else variants[v],
            suite=suite,
            exit_status="infra" if broken else "gave_up" if empty else "completed",
            error="the sandbox died: out of disk" if broken else "",
            turns=rng.randrange(18, 60),
            format_errors=rng.choice((0, 0, 0, 1)),
            usage=Usage(
                calls=40, prompt_tokens=rng.randrange(40_000, 90_000), completion_tokens=6_000, cached_tokens=9
            ),
            cpu_seconds=rng.random() * 20,
            wall_seconds=rng.random() * 25,
            report="Changed one comparison. The reproduction now prints the expected list.",
        )
        wrong = rng.choice(("wrong_fix", "wrong_fix", "wrong_fix", "regression", "no_results", "timeout"))
        category = "infra" if broken else "empty_patch" if empty else "resolved" if v in good else wrong
        failed = ("tests/test_core.py::test_take_while_last",) if category == "wrong_fix" else ()
        candidates.append(made)
        rows.append(graded(made, category, fail_to_pass_failed=failed))
        suites.append(suite)
    matrix = realistic_matrix(rng, i, candidates, rows, suites)
    return candidates, rows, matrix, realistic_picks(rng, i, candidates, rows, matrix)


def realistic_matrix(rng: random.Random, i: str, candidates, rows, suites) -> Matrix | None:
    patches: dict[str, list[int]] = {}
    for n, made in enumerate(candidates):
        if made.patch:
            patches.setdefault(made.patch_sha256, []).append(n)
    if not patches:
        return None
    entries, outcomes = [], {sha: {} for sha in patches}
    for n, suite in enumerate(suites):
        admitted = rng.random() > 0.2
        tests = [
            TestEntry(id=t, kind=kind, own_patch=("passed",) * 3,
                      base=("failed",) * 3 if kind[0] == "f" else ("passed",) * 3,
                      dropped="unstable on the base tree" if rng.random() < 0.02 else "")
            for kind in ("fail_to_pass", "pass_to_pass") for t in getattr(suite, kind)
        ]  # fmt: skip
        entries.append(
            SuiteEntry(
                suite_sha256=suite.sha256,
                runs=(candidates[n].run,),
                admitted=admitted,
                reason="" if admitted else "its bug-revealing tests pass on the base tree",
                tests=tuple(tests),
            )
        )
        for sha, made_by in patches.items() if admitted else ():
            good = rows[made_by[0]].verdict.resolved
            outcomes[sha][suite.sha256] = {
                t.id: "passed" if rng.random() < (0.985 if good else 0.965) else "failed"
                for t in tests
                if not t.dropped
            }
    return Matrix(
        instance_id=i,
        arm="main",
        patches=tuple(
            PatchEntry(
                patch_sha256=sha,
                runs=tuple(candidates[n].run for n in by),
                chars=len(candidates[by[0]].patch),
                applies=True,
            )
            for sha, by in patches.items()
        ),
        suites=tuple(entries),
        outcomes=outcomes,
    )


def realistic_picks(rng: random.Random, i: str, candidates, rows, matrix: Matrix | None) -> list[PickGraded]:
    if matrix is None:
        return [abstained(s, i) for s in ("cross_agent", "first", "shortest", "self_tests")]
    scores = {}
    for sha, by_suite in matrix.outcomes.items():
        cells = []
        for suite in matrix.suites:
            if suite.suite_sha256 in by_suite:
                out = by_suite[suite.suite_sha256]
                kinds = {t.id: t.kind for t in suite.tests}
                good = {k: all(s == "passed" for t, s in out.items() if kinds[t] == k) for k in set(kinds.values())}
                cells.append(0.3 * good["fail_to_pass"] + 0.7 * good["pass_to_pass"])
        scores[sha] = sum(cells) / len(cells) if cells else 0.0
    best = max(scores.values())
    tied = tuple(sha for sha in scores if scores[sha] > best - 1e-3)
    first = next(n for n, made in enumerate(candidates) if made.patch)
    chosen = next(n for n, made in enumerate(candidates) if made.patch_sha256 == tied[0])
    made = [
        picked("first", rows[first], candidates[first]),
        picked("shortest", rows[first], candidates[first]),
        picked("self_tests", rows[first], candidates[first]),
    ]
    pick = picked("cross_agent", rows[chosen], candidates[chosen]).pick
    pick = pick.model_copy(update={"scores": scores, "tied": tied, "reason": f"best of {len(scores)} by score"})
    return [PickGraded(pick=pick, verdict=rows[chosen].verdict), *made]


def realistic_trajectory(rng: random.Random, made: Candidate, path: Path) -> Path:
    records = []
    for n in range(1, made.turns + 1):
        phase = PHASES[(n - 1) * len(PHASES) // made.turns]
        command = rng.choice(
            (
                "sed -n 1,80p src/pkg/core.py",
                "python repro.py",
                "python $UCHIDE_TOOLS/run_tests.py tests/test_core.py",
                "grep -rn take_while src tests | head -40",
            )
        )
        output = "".join(
            f"{n:4d}  def function_{n}(argument, other=None):  # line {n}\n" for n in range(rng.randrange(90))
        )
        broken = n == 5 and made.format_errors
        records.append(
            turn(
                n,
                phase,
                reply=f"WORKFLOW: W{n % 4}\nTHOUGHT: I look at where the element is dropped.\nFINAL_ANSWER:\n{command}",
                action=None if broken else command,
                observation=f"<returncode>0</returncode>\n<output>\n{output}</output>",
                format_error="more than one action in one turn" if broken else None,
            )
        )
    return write_trajectory(path, made, records)
