"""Small trajectories in the layouts of other projects, written by us: one step that looks, one that mends, an end."""

import json
from pathlib import Path
from typing import Any

PATCH = "diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n@@ -1 +1 @@\n-a - b\n+a + b\n"
LOOK, MEND = "cat calc.py", "sed -i 's/-/+/' calc.py"
USAGE = {"prompt_tokens": 50, "completion_tokens": 5}
SHOWN = "<returncode>0</returncode>\n<output>\na - b\n</output>"


def fenced(command: str, language: str = "bash") -> str:
    return f"THOUGHT: I see.\n\n```{language}\n{command}\n```"


def mini_messages() -> list[dict[str, Any]]:
    """The oldest layout: bare messages."""
    said = [("system", "be good"), ("user", "mend it"), ("assistant", fenced(LOOK)), ("user", SHOWN)]
    said += [("assistant", fenced(MEND)), ("user", "<returncode>0</returncode>\n<output>\n</output>")]
    return [{"role": role, "content": content} for role, content in said]


def mini_v1() -> dict[str, Any]:
    messages = mini_messages()
    for message in messages:
        if message["role"] == "assistant":
            message["extra"] = {"response": {"usage": USAGE}}
    stats = {"instance_cost": 0.25, "api_calls": 2}
    info = {"exit_status": "Submitted", "submission": PATCH, "mini_version": "1.17.2", "model_stats": stats}
    config = {"model": {"model_name": "some/model"}}
    return {"info": {**info, "config": config}, "messages": messages, "trajectory_format": "mini-swe-agent-1"}


def mini_v2() -> dict[str, Any]:
    """With tool calls, a reply that could not be parsed (kept in the message that says so), and an exit message."""

    def called(number: int, command: str) -> dict[str, Any]:
        function = {"name": "bash", "arguments": json.dumps({"command": command})}
        extra = {"actions": [{"command": command, "tool_call_id": f"c{number}"}], "response": {"usage": USAGE}}
        calls = [{"id": f"c{number}", "type": "function", "function": function}]
        return {"role": "assistant", "content": "I see.", "tool_calls": calls, "extra": {**extra, "cost": 0.5}}

    def seen(number: int, output: str) -> dict[str, Any]:
        extra = {"raw_output": output, "returncode": 0}
        return {"role": "tool", "tool_call_id": f"c{number}", "content": output, "extra": extra}

    reply = {"choices": [{"message": {"role": "assistant", "content": "no call"}}], "usage": USAGE}
    error = {"role": "user", "content": "call a tool", "extra": {"interrupt_type": "FormatError", "response": reply}}
    messages = [
        {"role": "system", "content": [{"type": "text", "text": "be good"}]},
        {"role": "user", "content": "mend it"},
        *(called(1, LOOK), seen(1, "a - b"), error, called(2, MEND), seen(2, "")),
        {"role": "exit", "content": PATCH, "extra": {"exit_status": "Submitted", "submission": PATCH}},
    ]
    info = {"model_stats": {"instance_cost": 1.0, "api_calls": 3}, "mini_version": "2.4.6"}
    return {"info": info, "messages": messages, "trajectory_format": "mini-swe-agent-1.1", "instance_id": "toy-1"}


def mini_responses() -> dict[str, Any]:
    """Version 2 over the Responses API: objects without roles."""
    call = {"type": "function_call", "name": "bash", "call_id": "c1", "arguments": json.dumps({"command": LOOK})}
    said = {"type": "message", "content": [{"type": "output_text", "text": "I see."}]}
    usage = {"input_tokens": 50, "output_tokens": 5}
    reply = {"object": "response", "output": [said, call], "usage": usage, "extra": {"actions": [{"command": LOOK}]}}
    seen = {"type": "function_call_output", "call_id": "c1", "output": "a - b", "extra": {"returncode": 0}}
    opening = [{"role": "system", "content": "be good"}, {"role": "user", "content": "mend it"}]
    return {"info": {"exit_status": "LimitsExceeded", "submission": ""}, "messages": [*opening, reply, seen]}


def published() -> dict[str, Any]:
    """The published variant: phases, time stamps, a system message per visit."""

    def said(role: str, content: str, phase: str, t: float) -> dict[str, Any]:
        extra = {"extra": {"response": {"usage": USAGE}}} if role == "assistant" else {}
        return {"role": role, "content": content, "phase": phase, "timestamp": 1.7e9 + t, **extra}

    def acting(token: str, command: str) -> str:
        return f"WORKFLOW: {token}\nTHOUGHT: I see.\nFINAL_ANSWER:\n<tool: bash> {command} </tool>"

    first, second = "CODE_LOCALIZE", "CODE_FIX"
    messages = [
        *(said("system", "find it", first, 0), said("user", "issue", first, 1)),
        *(said("assistant", acting("W0", LOOK), first, 2), said("user", SHOWN, first, 3)),
        said("assistant", "WORKFLOW: COMPLETE\nTHOUGHT: found", first, 4),
        *(said("system", "mend it", second, 5), said("user", "issue and memo", second, 6)),
        *(said("assistant", acting("W1", MEND), second, 7), said("user", "<returncode>1</returncode>", second, 8)),
    ]
    info = {"exit_status": "Submitted", "submission": PATCH, "mini_version": "1.17.2", "model_stats": {"api_calls": 5}}
    return {"instance_id": "toy-1", "messages": messages, "info": info}


def swe_agent() -> dict[str, Any]:
    def step(action: str, observation: str) -> dict[str, Any]:
        return {"action": action, "observation": observation, "response": f"I see.\n{action}", "thought": "I see."}

    edit = "str_replace_editor str_replace /testbed/calc.py --old_str '-' --new_str '+'"
    history = [{"role": "system", "content": "be good"}, {"role": "user", "content": "demo", "is_demo": True}]
    history += [{"role": "user", "content": "mend it"}, {"role": "assistant", "content": "I see."}]
    stats = {"instance_cost": 0.25, "tokens_sent": 100, "tokens_received": 10, "api_calls": 3}
    info = {"exit_status": "submitted", "submission": PATCH, "model_stats": stats, "swe_agent_version": "1.1.0"}
    steps = [step(LOOK + "\n", "a - b"), step(edit, "edited"), step("submit", "")]
    return {"trajectory": steps, "history": history, "info": info, "environment": "main"}


def _run(number: int, command: str) -> dict[str, Any]:
    return {"id": number, "source": "agent", "action": "run", "args": {"command": command, "thought": "I see."}}


def _ran(cause: int, content: str, code: int = 0) -> dict[str, Any]:
    extras = {"command": "...", "metadata": {"exit_code": code}}
    return {"id": cause + 1, "observation": "run", "content": content, "extras": extras, "cause": cause}


def openhands(*, pairs: bool) -> dict[str, Any]:
    """A row of `output.jsonl`, in the layout of pairs or of single events."""
    task = {"id": 0, "source": "user", "action": "message", "args": {"content": "mend it"}}
    finish = {"id": 9, "source": "agent", "action": "finish", "args": {"final_thought": "done", "outputs": {}}}
    state = {"id": 10, "observation": "agent_state_changed", "content": "", "extras": {"agent_state": "finished"}}
    edit = {"path": "/w/calc.py", "command": "str_replace", "old_str": "-", "new_str": "+", "thought": "mend"}
    edits = {"id": 3, "source": "agent", "action": "edit", "args": edit}
    edited = {"id": 4, "observation": "edit", "content": "edited", "extras": {}, "cause": 3}
    events = [task, _run(1, LOOK), edits, edited, _ran(1, "a - b"), finish, state]
    couples = [[task, {"observation": "null", "content": "", "extras": {}}], [_run(1, LOOK), _ran(1, "a - b")]]
    couples += [[edits, edited], [finish, state]]
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "cache_read_tokens": 40}
    metrics = {"accumulated_cost": 0.25, "accumulated_token_usage": usage, "costs": [{}, {}, {}]}
    metadata = {"agent_class": "CodeActAgent", "llm_config": {"model": "some/model"}}
    row = {"instance_id": "toy-1", "metadata": metadata, "metrics": metrics, "test_result": {"git_patch": PATCH}}
    return {**row, "history": couples if pairs else events, "error": None}


def sdk_events() -> list[dict[str, Any]]:
    """Events of the SDK: two calls in one reply, then one that fails, then the end."""

    def content(said: str) -> list[dict[str, str]]:
        return [{"type": "text", "text": said}]

    def action(call: str, reply: str, tool: str, **arguments: str) -> dict[str, Any]:
        found = {"kind": "ActionEvent", "source": "agent", "thought": content("I see."), "tool_name": tool}
        called = {"tool_call_id": call, "llm_response_id": reply, "action": {"kind": f"{tool}Action", **arguments}}
        return {**found, **called, "tool_call": {"id": call, "name": tool, "arguments": json.dumps(arguments)}}

    def seen(call: str, said: str) -> dict[str, Any]:
        observation = {"kind": "TerminalObservation", "content": content(said), "exit_code": 0}
        return {"kind": "ObservationEvent", "source": "environment", "tool_call_id": call, "observation": observation}

    return [
        {"kind": "SystemPromptEvent", "source": "agent", "system_prompt": {"type": "text", "text": "be good"}},
        {"kind": "MessageEvent", "source": "user", "llm_message": {"role": "user", "content": content("mend it")}},
        action("c1", "r1", "terminal", command=LOOK),
        action("c2", "r1", "terminal", command="ls"),
        *(seen("c2", "calc.py"), seen("c1", "a - b")),
        action("c3", "r2", "file_editor", command="str_replace", path="/w/calc.py", old_str="-", new_str="+"),
        {"kind": "AgentErrorEvent", "source": "agent", "tool_call_id": "c3", "error": "no such file"},
        {"kind": "ConversationStateUpdateEvent", "source": "environment", "key": "x", "value": "y"},
        action("c4", "r3", "finish", message="done"),
    ]


def sdk_folder(folder: Path) -> Path:
    """A conversation as the SDK keeps it: a file per event, and a state."""
    (folder / "events").mkdir(parents=True)
    for number, event in enumerate(sdk_events()):
        (folder / f"events/event-{number:05d}-0123abcd-0000.json").write_text(json.dumps(event))
    state = {"agent": {"llm": {"model": "some/model"}}, "execution_status": "finished"}
    (folder / "base_state.json").write_text(json.dumps(state))
    return folder


def atif() -> dict[str, Any]:
    call = {"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": LOOK}}
    view = {"tool_call_id": "c2", "function_name": "edit", "arguments": {"path": "calc.py", "new": "+"}}
    metrics = {"prompt_tokens": 50, "completion_tokens": 5, "cached_tokens": 20, "cost_usd": 0.125}
    steps = [
        {"step_id": 1, "source": "system", "message": "be good"},
        {"step_id": 2, "source": "user", "message": [{"type": "text", "text": "mend it"}]},
        {
            **{"step_id": 3, "source": "agent", "message": "I see.", "reasoning_content": "hm", "metrics": metrics},
            "tool_calls": [call, view],
            "observation": {"results": [{"source_call_id": "c1", "content": "a - b"}, {"content": None}]},
        },
        {"step_id": 4, "source": "agent", "message": "as before", "is_copied_context": True},
        {"step_id": 5, "source": "agent", "message": "done", "metrics": metrics},
    ]
    sub = {"schema_version": "ATIF-v1.7", "trajectory_id": "helper", "agent": {"name": "helper", "version": "1"}}
    sub["steps"] = [{"step_id": 1, "source": "agent", "message": "helped"}]
    agent = {"name": "some-agent", "version": "1.0", "model_name": "some/model"}
    final = {"total_prompt_tokens": 100, "total_completion_tokens": 10, "total_cost_usd": 0.25}
    document = {"schema_version": "ATIF-v1.7", "session_id": "toy-1", "agent": agent, "steps": steps}
    return {**document, "final_metrics": final, "subagent_trajectories": [sub]}
