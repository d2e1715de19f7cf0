"""What every trajectory comes down to, whoever wrote it."""

from collections import Counter
from dataclasses import dataclass

from uchide.records import Usage


@dataclass(frozen=True)
class Act:
    """One call of a tool: `text` is the command of a shell, the arguments of any other tool."""

    tool: str
    text: str


@dataclass(frozen=True)
class Step:
    """One reply of the model and what came of it. Empty texts stand for what the file does not say."""

    thought: str = ""
    acts: tuple[Act, ...] = ()
    observation: str = ""
    usage: Usage | None = None
    """None where the file has no token counts for the step."""
    phase: str = ""
    visit: int = 1
    token: str = ""
    returncode: str = ""
    """Of the action: a number, or why it was killed."""
    problem: str = ""
    """Why nothing was executed, or what was refused."""
    before: tuple[tuple[str, str], ...] = ()
    """(role, text) of the conversation built anew for this step; empty where it went on, and of the opening."""

    @property
    def action(self) -> str:
        return "\n".join(act.text for act in self.acts)


@dataclass(frozen=True)
class Imported:
    """A trajectory as it is shown and compared."""

    source: str
    """`uchide`, `mini-swe-agent`, `swe-agent`, `openhands`, `openhands-sdk` or `atif`."""
    instance_id: str = ""
    model: str = ""
    agent: str = ""
    opening: tuple[tuple[str, str], ...] = ()
    """(role, text) of what was said before the first step."""
    steps: tuple[Step, ...] = ()
    exit_status: str = ""
    patch: str | None = None
    """None where the file does not hold it."""
    patch_sha256: str = ""
    """Of ours, which name their patch by its hash; empty elsewhere."""
    declared: Usage | None = None
    """Totals as the file gives them; they may count calls that are no steps."""
    notes: tuple[str, ...] = ()
    """What is odd about the file."""

    @property
    def usage(self) -> Usage | None:
        """Totals: the file's own, else the sum over the steps; None where neither is there."""
        counted = [step.usage for step in self.steps if step.usage is not None]
        if self.declared is not None or not counted:
            return self.declared
        costs = [usage.cost for usage in counted]
        return Usage(
            calls=sum(usage.calls for usage in counted),
            prompt_tokens=sum(usage.prompt_tokens for usage in counted),
            completion_tokens=sum(usage.completion_tokens for usage in counted),
            cost=None if None in costs else sum(cost for cost in costs if cost is not None),
        )

    @property
    def acts(self) -> int:
        return sum(len(step.acts) for step in self.steps)

    @property
    def tools(self) -> Counter[str]:
        """How often each tool was called."""
        return Counter(act.tool for step in self.steps for act in step.acts)
