"""What is sent to a server, byte by byte, and what its answers become."""

import json

import pytest
from support.fault_server import completion, good, serving, tool_call
from support.openai import client, request

from uchide.actions import FORMATS, Call, FormatError, shell_command
from uchide.llm.openai.config import OpenAIConfig
from uchide.llm.openai.wire import MalformedBody, body_of, parse
from uchide.protocols import Message, Sampling, ToolCall, ToolSpec

CONFIG = OpenAIConfig.read({"base_url": "http://a/v1", "model": "tiny"})
BASH = ToolSpec("bash", "runs", {"type": "object", "properties": {"command": {"type": "string"}}})


def config(**more):
    return OpenAIConfig.read({"base_url": "http://a/v1", "model": "tiny", **more})


def test_sampling_is_sent_explicitly_where_it_is_set():
    sampling = Sampling(seed=1001, temperature=0.0, top_p=0.95, max_tokens=512)
    assert body_of(request(sampling=sampling), CONFIG) == {
        "model": "tiny",
        "messages": [{"role": "user", "content": "hi"}],
        "seed": 1001,
        "temperature": 0.0,
        "top_p": 0.95,
        "max_tokens": 512,
    }
    assert set(body_of(request(sampling=Sampling(seed=0)), CONFIG)) == {"model", "messages", "seed"}


def test_what_a_server_refuses_is_left_out_and_what_it_wants_is_added():
    sampling = Sampling(seed=1, temperature=1.0, max_tokens=9)
    special = config(
        omit=["seed", "temperature"], max_tokens_field="max_completion_tokens", extra_body={"top_k": 20, "n": 1}
    )
    body = body_of(request(sampling=sampling), special)
    assert {key: value for key, value in body.items() if key != "messages"} == {
        "model": "tiny",
        "max_completion_tokens": 9,
        "top_k": 20,
        "n": 1,
    }


async def test_a_native_conversation_goes_over_the_wire():
    call = ToolCall("c7", "bash", '{"command": "ls"}')
    messages = [
        Message("system", "You are\u2028\U0001f600."),
        Message("user", "Fix."),
        Message("assistant", "", (call,)),
        Message("tool", "a.py", tool_call_id="c7"),
        Message("assistant", "WORKFLOW: W1", (call, ToolCall("c8", "bash", '{"command": "ls"'))),
        Message("tool", "Not executed.", tool_call_id="c8"),
    ]
    with serving(tool_call('{"command": "pwd"}')) as server:
        async with client(server) as model:
            reply = await model.complete(request(messages=messages, tools=(BASH,)))
    sent = server.asked[0].body
    assert [message["role"] for message in sent["messages"]] == [message.role for message in messages]
    assert sent["messages"][0]["content"] == "You are\u2028\U0001f600."
    function = {"name": "bash", "arguments": '{"command": "ls"}'}
    assert sent["messages"][2] == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c7", "type": "function", "function": function}],
    }
    assert sent["messages"][3] == {"role": "tool", "content": "a.py", "tool_call_id": "c7"}
    broken = sent["messages"][4]["tool_calls"][1]["function"]["arguments"]
    assert json.loads(broken) == {"malformed": '{"command": "ls"'}, "a server must be able to read it again"
    assert sent["tools"] == [
        {"type": "function", "function": {"name": "bash", "description": "runs", "parameters": BASH.parameters}}
    ]
    assert reply.tool_calls == (ToolCall("c1", "bash", '{"command": "pwd"}'),)


MALFORMED = {
    "no-closing-brace": '{"command": "ls"',
    "two-objects": '{"command":"ls"}\n{"command":"pwd"}',
    "shell-brace-expansion": "mkdir -p test/{a,b",
    "a-list": "[1]",
    "a-string": '"ls"',
    "a-number-inside": '{"command": 5}',
    "nothing": "",
    "a-list-object": [1],
    "a-number": 5,
    "none": None,
}


@pytest.mark.parametrize("kind", MALFORMED)
async def test_malformed_tool_arguments_are_a_format_error_and_no_crash(kind):
    with serving(tool_call(MALFORMED[kind])) as server:
        async with client(server, price={"input": 1.0, "output": 1.0}) as model:
            reply = await model.complete(request(tools=(BASH,)))
    action = FORMATS["native"].read(reply.text, reply.tool_calls)
    assert isinstance(shell_command(action) if isinstance(action, Call) else action, FormatError)
    assert reply.usage.cost is not None
    assert len(server.asked) == 1


async def test_arguments_that_are_an_object_already_are_taken():
    with serving(tool_call({"command": "ls"}, id=None)) as server:
        async with client(server) as model:
            reply = await model.complete(request(tools=(BASH,)))
    (call,) = reply.tool_calls
    assert json.loads(call.arguments) == {"command": "ls"}
    assert call.id == "call_1_0"


DEEP = "[" * 100_000


@pytest.mark.parametrize("arguments", [DEEP, '{"command":' + DEEP, '{"command": 1' + "0" * 5000 + "}", "\ud800", "[1]"])
def test_a_history_can_be_read_again_whatever_a_model_wrote(arguments):
    messages = [
        Message("user", "half \ud83d pair, \ud83d\ude00 whole"),
        Message("assistant", "\udc00", (ToolCall("c\ud800", "bash\ud800", arguments),)),
        Message("tool", "\ud800", tool_call_id="c\ud800"),
    ]
    body = body_of(request(messages=messages), CONFIG)
    json.dumps(body, ensure_ascii=False).encode()
    said, called, told = body["messages"]
    assert said["content"] == "half \ufffd pair, \U0001f600 whole"
    assert list(json.loads(called["tool_calls"][0]["function"]["arguments"])) == ["malformed"]
    assert called["tool_calls"][0]["id"] == told["tool_call_id"], "they still belong together"


def test_half_a_surrogate_pair_of_a_server_goes_no_further():
    call = {"id": "\ud800", "function": {"name": "\ud800", "arguments": "\ud800"}}
    body = completion("a\ud800b", "\ud800", tool_calls=[call]) | {"model": "\ud800"}
    parsed = parse(json.dumps(body), CONFIG, 1)
    assert parsed.text == "a\ufffdb"
    repr(parsed).encode()
    assert parsed.tool_calls == (ToolCall("\ufffd", "\ufffd", "\ufffd"),)
    assert (parsed.ending, parsed.model) == ("\ufffd", "\ufffd")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "not JSON"),
        ("nul", "not JSON"),
        (DEEP, "not JSON"),
        ('{"choices": 1' + "0" * 5000 + "}", "not JSON"),
        (json.dumps(completion() | {"usage": {"prompt_tokens": -1}}), "usage"),
        ("null", "no chat completion"),
        ("[]", "no chat completion"),
        ('{"choices": []}', "choices is empty"),
        ('{"choices": [{"message": "text"}]}', "choices.0.message"),
        (json.dumps(completion() | {"usage": "many"}), "usage"),
        ('{"error": {"message": "no"}}', "an error instead of an answer"),
    ],
)
def test_a_body_that_is_no_completion_says_why(text, told):
    with pytest.raises(MalformedBody, match=told):
        parse(text, CONFIG, 1)


def test_unknown_fields_of_all_kinds_are_no_trouble():
    body = good(prompt=5, output=2).body
    body["timings"] = {"x": 1}
    body["choices"][0] |= {"stop_reason": 151645, "logprobs": None, "token_ids": None}
    body["choices"][0]["message"] |= {"audio": None, "function_call": None, "annotations": [], "tool_calls": None}
    body["usage"] |= {"prompt_tokens_details": None, "completion_tokens": None}
    parsed = parse(json.dumps(body), CONFIG, 1)
    assert (parsed.text, parsed.finish_reason, parsed.tool_calls) == ("ok", "stop", ())
    assert (parsed.usage.prompt_tokens, parsed.usage.completion_tokens, parsed.usage.cached_tokens) == (5, 0, None)
