"""LOAD_TASK: the issue goes into the state, as every agent sees it."""

from uchide.agents.blueprint.state import AgentState
from uchide.agents.blueprint.work import NodeResult, Work
from uchide.agents.issue import render_issue


async def run(state: AgentState, work: Work) -> NodeResult:
    """No model call."""
    del state
    return NodeResult("REPRODUCE_ISSUE", "loaded", {"task_text": render_issue(work.session.task.instance.issue)})
