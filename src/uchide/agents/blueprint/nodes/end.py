"""END: the two lists of tests and the report go into the share, where candidates are collected from."""

from uchide.agents.blueprint.keeping import make_usable, warn
from uchide.agents.blueprint.state import AgentState
from uchide.agents.blueprint.work import NodeResult, Work
from uchide.patches.suite import SHARE
from uchide.protocols import Command

_WRITE = '[ -f "$1" ] || rm -rf -- "$1"; cat > "$1"'
"""Whatever an agent has put in the way (a pipe, a folder) is removed."""


async def run(state: AgentState, work: Work) -> NodeResult:
    """No model call."""
    await write_products(state, work, "")
    return NodeResult("", "", {})


async def write_products(state: AgentState, work: Work, ended: str) -> None:
    """fail_to_pass.txt, pass_to_pass.txt and report.md. `ended` names the limit that stopped the rollout early. Takes
    no account of the rollout's own limits: they may be what ended it."""
    await make_usable(work)
    report = work.prompts.render("report.md", state=state, ended=ended, attempts=work.spec.attempts)
    for name, text in (
        ("fail_to_pass.txt", "".join(f"{test}\n" for test in state.repro_tests)),
        ("pass_to_pass.txt", "".join(f"{test}\n" for test in state.regression_tests or ())),
        ("report.md", report + "\n"),
    ):
        argv = ("/bin/sh", "-c", _WRITE, "sh", f"{SHARE}/{name}")
        done = await work.session.sandbox.run(Command(argv, cwd="/", stdin=text.encode(), timeout_s=60))
        if done.returncode != 0:
            warn(work, f"{name} could not be written to the share")
