"""The inside of a sandbox for people: an instance's tree, with a candidate's patch applied if asked."""

import asyncio
import difflib
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from uchide.cli.results import candidates, plan_holding
from uchide.cli.text import say
from uchide.errors import ConfigError, PatchError, StoreError
from uchide.paths import Root
from uchide.pipeline.plan import Plan
from uchide.protocols import Command, Sandbox
from uchide.records import Candidate, PublicInstance
from uchide.store import Artifact

TIMEOUT_S = 3600.0
WHERE = "/tmp/.uchide-shell-cwd"


async def enter(root: Root, path: Path, instance_id: str, candidate_id: str | None) -> None:
    """Open the sandbox and serve commands from standard input. Raises ConfigError for ids that do not exist."""
    from uchide.datasets import environments
    from uchide.sandboxes import provider
    from uchide.testing.spec import instance_spec

    plan = plan_holding(root, path, instance_id)
    public = _public(root, plan)
    instance = _instance(public, instance_id)
    candidate = _candidate(root, plan, instance_id, candidate_id) if candidate_id else None
    built = environments.locate(instance.environment.key)
    tree = public.file(f"trees/{instance.tree}.tar.zst")
    spec = instance_spec(instance, tree, built.root, built.python_home)
    async with provider(plan.experiment.sandbox).open(spec) as sandbox:
        if candidate and candidate.patch:
            await _apply(sandbox, candidate)
        await _serve(sandbox)


def owner(root: Root, instance_id: str, candidate_id: str | None) -> str:
    """Name of an experiment file whose artifacts hold the instance (and the candidate); of several, the first, and a
    line that there are others. Raises ConfigError."""
    names = dict.fromkeys(home.parent.name.removesuffix(".subset") for home in _owning(root, instance_id, candidate_id))
    if not names:
        what = f"candidate {candidate_id!r}" if candidate_id else f"instance {instance_id!r}"
        raise ConfigError(f"no experiment in {root.artifacts} has {what}", hint="name one with --experiment")
    first, *others = names
    if others:
        say(
            f"note: this is of the experiment {first}; {', '.join(others)} also has {candidate_id or instance_id}",
            err=True,
        )
    return first


def _owning(root: Root, instance_id: str, candidate_id: str | None) -> Iterator[Path]:
    for home in sorted(root.artifacts.glob("*/prepare")):
        public = Artifact(home.resolve()).children()["public"]
        if not any(row.instance_id == instance_id for row in public.rows(PublicInstance)):
            continue
        if candidate_id is None or _holds(root.home(home.parent.name) / "bench", candidate_id):
            yield home


def _holds(bench: Path, candidate_id: str) -> bool:
    if not bench.exists():
        return False
    parts = Artifact(bench.resolve()).children().values()
    made = [part for part in parts if part.manifest.identity.kind == "generate"]  # beside them: their verdicts
    return any(row.candidate_id == candidate_id for part in made for row in part.rows(Candidate))


def _public(root: Root, plan: Plan) -> Artifact:
    source = next(
        source for job in plan.jobs.values() if job.kind.label == "tts-matrix" for source in job.inputs["public"]
    )
    try:
        return Artifact(root.store / source.path)
    except StoreError as error:
        raise ConfigError(
            f"{plan.experiment.name} is not prepared yet", hint=f"uchide run {plan.experiment.name} --until prepare"
        ) from error


def _instance(public: Artifact, instance_id: str) -> PublicInstance:
    known = {row.instance_id: row for row in public.rows(PublicInstance)}
    if instance_id not in known:
        near = difflib.get_close_matches(instance_id, known, n=3)
        hint = f"did you mean {', '.join(near)}?" if near else f"there are {len(known)} instances"
        raise ConfigError(f"no prepared instance {instance_id!r}", hint=hint)
    return known[instance_id]


def _candidate(root: Root, plan: Plan, instance_id: str, candidate_id: str) -> Candidate:
    found = {row.candidate_id: row for row in candidates(root, plan) if row.instance_id == instance_id}
    if candidate_id in found:
        return found[candidate_id]
    raise ConfigError(
        f"no candidate {candidate_id!r} of {instance_id}", hint=f"there are: {', '.join(found) or 'none'}"
    )


async def _apply(sandbox: Sandbox, candidate: Candidate) -> None:
    command = Command(
        ("git", "-c", "safe.directory=*", "apply", "--whitespace=nowarn", "-"), stdin=candidate.patch.encode()
    )
    done = await sandbox.run(command)
    if done.returncode != 0:
        raise PatchError(f"{candidate.candidate_id}: {done.output.decode('utf-8', 'replace')}")
    say(f"applied {candidate.patch_sha256[:12]} of {candidate.candidate_id}")


async def _serve(sandbox: Sandbox) -> None:
    """Read a line, run it with bash where the last one ended, show what came out."""
    folder = "/testbed"
    while True:
        try:
            line = await asyncio.to_thread(_read, folder)
        except EOFError:
            return
        if line.strip() in ("exit", "logout"):
            return
        script = f"{line}\nstatus=$?; pwd > {WHERE}; exit $status"
        done = await sandbox.run(Command(("bash", "-c", script), cwd=folder, timeout_s=TIMEOUT_S))
        say(done.output.decode("utf-8", "replace").removesuffix("\n")) if done.output else None
        if done.returncode != 0:
            say(f"[{done.killed or f'exit status {done.returncode}'}]")
        folder = await _folder(sandbox, folder)


def _read(folder: str) -> str:
    if sys.stdin.isatty():
        import readline

        readline.set_auto_history(True)
        return input(f"{shlex.quote(folder)}$ ")
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


async def _folder(sandbox: Sandbox, before: str) -> str:
    try:
        return (await sandbox.read(WHERE)).decode("utf-8", "replace").rstrip("\n") or before
    except FileNotFoundError:
        return before
