"""The five action formats: exactly one action of a raw model output, or the reason why not."""

import json

import pytest

from uchide.actions import FORMATS, Call, FormatError, native, shell_command
from uchide.errors import ActionError
from uchide.protocols import ToolCall

TEXT_FORMATS = [name for name, form in FORMATS.items() if not form.native]
HEREDOC = "cat > README.md <<'EOF'\n```python\nx\n```\nEOF"
TAGS = "cat > p.py <<'EOF'\nX = '<tool_call>{}</tool_call> [TOOL_CALLS] <function=f></function>'\n```\nEOF"


def command(form, raw, calls=()):
    """What an agent with `bash` alone would run: a command, None, or a FormatError."""
    call = FORMATS[form].read(raw, calls)
    return shell_command(call) if isinstance(call, Call) else call


def api(arguments, name="bash"):
    return ToolCall("call_1", name, arguments)


def tagged(call):
    return f"<tool_call>\n{call}\n</tool_call>"


def bash_call(arguments):
    return tagged(f'{{"name": "bash", "arguments": {arguments}}}')


def bash_json(text):
    return json.dumps({"name": "bash", "arguments": {"command": text}})


@pytest.mark.parametrize(
    ("form", "raw", "expected"),
    [
        ("tool_bash", "<tool: bash> ls </tool>", "ls"),
        ("tool_bash", "I look.\n<TOOL:bash>\nls -l\n</TOOL >\nThen I read.", "ls -l"),
        ("tool_bash", f"<tool: bash>{HEREDOC}</tool>", HEREDOC),
        ("tool_bash", "`<tool: bash> ls </tool>`. </s>\nThen I read.", "ls"),
        ("tool_bash", "<tool: bash> mkdir -p test/{a,b </tool>", "mkdir -p test/{a,b"),
        ("tool_bash", "<tool: bash>\r\na\r\nb\r\n</tool>\r\n", "a\nb"),
        ("tool_bash", "<tool: bash> [TOOL_CALLS] <tool_call> ```bash </tool>", "[TOOL_CALLS] <tool_call> ```bash"),
        ("tool_bash", "<tool: bash> cat <<X\nFINAL_ANSWER:\nX\n</tool>", "cat <<X\nFINAL_ANSWER:\nX"),
        ("markdown_bash", "```bash\nls\n```", "ls"),
        ("markdown_bash", "I look:\n\n```bash\nls -l\n```\n\nThen I read.", "ls -l"),
        ("markdown_bash", "```Bash title=x\nls\n```", "ls"),
        ("markdown_bash", "``` bash\nls\n```  ", "ls"),
        ("markdown_bash", "~~~bash\necho '```'\n~~~", "echo '```'"),
        ("markdown_bash", f"````bash\n{HEREDOC}\n````", HEREDOC),
        ("markdown_bash", "```bash\nls\n`````", "ls"),
        ("markdown_bash", "```bash\necho a ```\n```", "echo a ```"),
        ("markdown_bash", "```bash\ncat <<X\n    ```\nX\n```", "cat <<X\n    ```\nX"),
        ("markdown_bash", "  ```bash\n  a\n    b\n c\n  ```", "a\n  b\nc"),
        ("markdown_bash", "```bash\r\na\r\nb\r\n```\r\n", "a\nb"),
        ("markdown_bash", "It prints\n```text\n[ok]\n```\nso:\n```bash\nls\n```", "ls"),
        ("markdown_bash", "````markdown\n```bash\nrm x\n```\n````\n```bash\nls\n```", "ls"),
        ("markdown_bash", "```bash\nmkdir -p test/{a,b\n```", "mkdir -p test/{a,b"),
        ("markdown_bash", "```bash\n: '</tool>' <tool_call> [TOOL_CALLS]\n```", ": '</tool>' <tool_call> [TOOL_CALLS]"),
        ("tool_call", tagged(bash_json("ls")), "ls"),
        ("tool_call", f"I look.\n{tagged(bash_json('ls -l'))}\nThen I read.", "ls -l"),
        ("tool_call", f"```json\n{tagged(bash_json('ls'))}\n```", "ls"),
        ("tool_call", tagged(bash_json(HEREDOC)), HEREDOC),
        ("tool_call", tagged(bash_json(TAGS)), TAGS),
        ("tool_call", tagged(bash_json("mkdir -p test/{a,b")), "mkdir -p test/{a,b"),
        ("tool_call", tagged('{"arguments": {"command": "a\nb"}, "name": "bash"}'), "a\nb"),
        ("tool_call", tagged(bash_json("ls")).replace("\n", "\r\n"), "ls"),
        ("tool_call", f"<tool_call>{bash_json('ls')}", "ls"),
        ("tool_call", f"\n{bash_json('ls')}\n", "ls"),
        ("tool_call", tagged('{"id": 1, "type": "function", "name": "bash", "arguments": {"command": "ls"}}'), "ls"),
        ("toolcall", '[TOOL_CALLS]bash[ARGS]{"command": "ls"}', "ls"),
        ("toolcall", 'I look.[TOOL_CALLS]bash{"command": "ls"}</s>', "ls"),
        ("toolcall", '[TOOL_CALLS] bash [CALL_ID]a1B2c3D4e[ARGS] {"command": "ls"}\r\n', "ls"),
        ("toolcall", f"[TOOL_CALLS] [{bash_json('ls')}]", "ls"),
        ("toolcall", f"[TOOL_CALLS]{bash_json('ls')}", "ls"),
        ("toolcall", '[TOOL_CALLS][{"name": "bash", "arguments": {"command": "ls"}, "id": "VvvODy9mT"}]', "ls"),
        ("toolcall", f"[TOOL_CALLS]bash[ARGS]{json.dumps({'command': TAGS})}", TAGS),
        ("toolcall", f"[TOOL_CALLS] [{bash_json(TAGS)}]", TAGS),
        ("toolcall", '[TOOL_CALLS]bash[ARGS]{"command": "mkdir -p test/{a,b"}', "mkdir -p test/{a,b"),
        ("toolcall", 'bash{"command": "ls"}', "ls"),
        ("toolcall", f"[{bash_json('ls')}]", "ls"),
    ],
)  # fmt: skip
def test_one_action(form, raw, expected):
    assert command(form, raw) == expected


@pytest.mark.parametrize(
    ("form", "raw"),
    [
        ("tool_bash", ""),
        ("tool_bash", "```bash\nls\n```"),
        ("tool_bash", "A memo: run <tool> by hand."),
        ("markdown_bash", ""),
        ("markdown_bash", "```bash ls```"),
        ("markdown_bash", "```sh\nls\n```\n```\nls\n```"),
        ("markdown_bash", "    ```bash\n    ls\n    ```"),
        ("markdown_bash", "````\n```bash\nls\n```\n````"),
        ("markdown_bash", "````markdown\n```bash\nls\n```"),
        ("markdown_bash", "<tool: bash> ls </tool>"),
        ("tool_call", ""),
        ("tool_call", '{"command": "ls"}'),
        ("tool_call", bash_json("ls") * 2),
        ("tool_call", bash_json("ls")[:-1]),
        ("tool_call", "```bash\nls\n```"),
        ("toolcall", ""),
        ("toolcall", "bash {ls}"),
        ("toolcall", "[1, 2]"),
        ("toolcall", "[]"),
        ("toolcall", 'bash{"command": "ls"} and so on'),
        ("toolcall", tagged(bash_json("ls"))),
        ("native", ""),
        ("native", tagged(bash_json("ls"))),
        ("native", "<tool: bash> ls </tool>"),
    ],
)
def test_no_action(form, raw):
    assert command(form, raw) is None


@pytest.mark.parametrize(
    ("form", "raw", "reason"),
    [
        # several
        ("tool_bash", "<tool: bash> a </tool><tool: bash> b </tool>", "2 <tool: bash> actions"),
        ("markdown_bash", "```bash\na\n```\n```bash\nb\n```\n```bash\nc\n```", "3 ```bash blocks"),
        ("tool_call", tagged(bash_json("a")) + tagged(bash_json("b")), "several <tool_call> actions"),
        ("tool_call", tagged(bash_json("a") + "\n" + bash_json("b")), "</tool_call> is expected, not '{\"name\""),
        ("tool_call", tagged(f"[{bash_json('a')}, {bash_json('b')}]"), "must be a JSON object, not an array"),
        ("toolcall", f"[TOOL_CALLS] [{bash_json('a')}, {bash_json('b')}]", "2 actions in the array"),
        ("toolcall", '[TOOL_CALLS]bash[ARGS]{"command": "a"}[TOOL_CALLS]bash[ARGS]{}', "several [TOOL_CALLS]"),
        ("toolcall", '[TOOL_CALLS]bash[ARGS]{"command": "a"}\n{"command": "b"}', "nothing may follow"),
        ("toolcall", f"[{bash_json('a')}, {bash_json('b')}]", "2 actions in the array"),
        # not closed, cut off
        ("tool_bash", "<tool: bash> ls", "not closed"),
        ("tool_bash", "ls </tool>", "without <tool: bash>"),
        ("tool_bash", '<tool: bash> grep -n "</tool>" a.xml > out; rm -rf build', "follows </tool> on its line"),
        ("tool_bash", "<tool: bash> sed -n /</tool>/p a.xml", "follows </tool> on its line"),
        ("tool_bash", "</tool><tool: bash> ls", "not closed"),
        ("markdown_bash", "```bash\nls", "a fence is not closed"),
        ("markdown_bash", "~~~bash\nls\n```", "a fence is not closed"),
        ("markdown_bash", "````bash\nls\n```", "a fence is not closed"),
        ("tool_call", '<tool_call>{"name": "bash", "arguments": {"command": "ls', "string that begins with '\"ls'"),
        ("tool_call", '<tool_call>{"name": "bash", "arguments":', "cut off: Expecting value"),
        ("tool_call", "<tool_call>\n", "cut off"),
        ("tool_call", f"{bash_json('ls')}</tool_call>", "without <tool_call>"),
        ("tool_call", f"{tagged(bash_json('ls'))}</tool_call>", "without <tool_call>"),
        ("tool_call", f"</tool_call>{tagged(bash_json('ls'))}", "without <tool_call>"),
        ("toolcall", '[TOOL_CALLS]bash[ARGS]{"command": "ls', "cut off"),
        ("toolcall", f"[TOOL_CALLS] [{bash_json('ls')}", "cut off"),
        ("toolcall", "[TOOL_CALLS]bash[ARGS]", "cut off"),
        # a command that holds the format's own markers is refused, not cut
        ("tool_bash", "<tool: bash> grep '</tool>' x </tool>", "more than once"),
        ("tool_bash", "<tool: bash> echo '<tool: bash>' </tool>", "2 <tool: bash> actions"),
        ("markdown_bash", f"```bash\n{HEREDOC}\n```", "a fence is not closed"),
        ("markdown_bash", "```bash\ncat > a <<X\n```\nx\n```\nX\n```\n", "another fence follows"),
        ("markdown_bash", "```bash\ncat > a <<X\n```\nx\n```\nX\n```\nand\n```", "a fence is not closed"),
        # malformed
        ("tool_call", bash_call('{"command": "ls"'), "Expecting ',' delimiter at '</tool"),
        ("tool_call", bash_call('{command: "ls"}'), "Expecting property name"),
        ("tool_call", tagged("{'name': 'bash'}"), "Expecting property name"),
        ("tool_call", bash_call('{"command": "sed s/\\(a\\)/b/"}'), "Invalid \\escape"),
        ("tool_call", bash_call('{"command": "a", "command": "b"}'), "'command' stands twice"),
        ("tool_call", bash_call('{"command": "\\ud83d"}'), "half a character"),
        ("tool_call", bash_call('Infinity'), "Infinity is not JSON"),
        ("tool_call", bash_call('{"n": ' + "9" * 5000 + "}"), "number is too long"),
        ("tool_call", tagged("[" * 100_000), "nested too deep"),
        ("tool_call", tagged("<function=bash>\n<parameter=command>\nls"), "Expecting value at '<function"),
        ("tool_call", tagged("mkdir -p test/{a,b}"), "malformed: Expecting value at 'mkdir"),
        ("toolcall", '[TOOL_CALLS]bash[ARGS]{"command": "ls"]', "Expecting ',' delimiter"),
        ("toolcall", "[TOOL_CALLS]bash ls", "a name with [ARGS] and a JSON object is expected, not 'bash ls'"),
        ("toolcall", "[TOOL_CALLS]mkdir -p test/{a,b}", "is expected, not 'mkdir"),
        # empty
        ("tool_bash", "<tool: bash> </tool>", "is empty"),
        ("markdown_bash", "```bash\n```", "is empty"),
        ("markdown_bash", "```bash\n\n \n```", "is empty"),
        ("tool_call", "<tool_call>\n</tool_call>", "is empty"),
        ("tool_call", tagged(bash_json(" ")), "is empty"),
        ("toolcall", "[TOOL_CALLS]", "is empty"),
        ("toolcall", "[TOOL_CALLS] []", "is empty"),
        ("toolcall", '[TOOL_CALLS]bash[ARGS]{"command": ""}', "is empty"),
        # wrong type
        ("tool_call", bash_call('["ls"]'), "arguments must be a JSON object, not an array"),
        ("tool_call", bash_call('"ls"'), "arguments must be a JSON object, not a string"),
        ("tool_call", bash_call('5'), "arguments must be a JSON object, not a number"),
        ("tool_call", bash_call('null'), "arguments must be a JSON object, not null"),
        ("tool_call", bash_call('{"command": 5}'), "`command` must be a string, not a number"),
        ("tool_call", bash_call('{"command": ["ls"]}'), "`command` must be a string, not an array"),
        ("tool_call", tagged('{"name": ["bash"], "arguments": {}}'), "`name` must be the name of a tool, not an array"),
        ("tool_call", tagged('"bash"'), "must be a JSON object, not a string"),
        ("toolcall", '[TOOL_CALLS]bash[ARGS]"ls"', "arguments must be a JSON object, not a string"),
        ("toolcall", "[TOOL_CALLS]bash[ARGS][1]", "arguments must be a JSON object, not an array"),
        ("toolcall", "[TOOL_CALLS] [5]", "must be a JSON object, not a number"),
        ("toolcall", '[TOOL_CALLS]bash[ARGS]{"command": true}', "`command` must be a string, not a boolean"),
        # something missing or too much
        ("tool_call", tagged('{"arguments": {"command": "ls"}}'), "`name` is missing"),
        ("tool_call", tagged('{"name": "", "arguments": {"command": "ls"}}'), "`name` is missing"),
        ("tool_call", tagged('{"name": "bash", "command": "ls"}'), "not 'command'"),
        ("tool_call", tagged('{"name": "bash"}'), "`arguments` is missing"),
        ("tool_call", bash_call('{}'), "`command` is missing"),
        ("tool_call", bash_call('{"command": "ls", "cwd": "/"}'), "nothing else, not 'cwd'"),
        ("tool_call", tagged('{"name": "python", "arguments": {"code": "1"}}'), "no tool 'python', only bash"),
        ("toolcall", '[TOOL_CALLS]python[ARGS]{"code": "1"}', "no tool 'python', only bash"),
        ("tool_bash", "<tool: bash> a\0b </tool>", "NUL"),
        ("tool_bash", "<tool: bash> \udce4 </tool>", "half a character"),
        ("tool_bash", f"<tool: bash> {'é' * 60_000} </tool>", "longer than 100,000 bytes"),
        ("toolcall", '[TOOL_CALLS]bash[ARGS]{"command": "a\\u0000b"}', "NUL"),
    ],
)  # fmt: skip
def test_format_errors(form, raw, reason):
    found = command(form, raw)
    assert isinstance(found, FormatError)
    assert reason in found.reason


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"command": "ls"}', "ls"),
        (' {"command": "a\nb"}\n', "a\nb"),
        (json.dumps({"command": TAGS}), TAGS),
        ('{"command": "mkdir -p test/{a,b}"}', "mkdir -p test/{a,b}"),
    ],
)
def test_tool_call_of_the_api(arguments, expected):
    assert command("native", "any <tool_call> text", [api(arguments)]) == expected


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ('{"command": "ls"', "Expecting ',' delimiter at its end"),
        ('{"command": "ls', "cut off"),
        ('{"command":"ls"}\n{"command":"pwd"}', "nothing may follow the JSON of the arguments"),
        ("mkdir -p test/{a,b", "malformed"),
        ("[1]", "must be a JSON object, not an array"),
        ('"ls"', "must be a JSON object, not a string"),
        ("5", "must be a JSON object, not a number"),
        ('{"command": 5}', "`command` must be a string, not a number"),
        ({"command": "ls"}, "must be JSON text, not an object"),
        ("", "`command` is missing"),
        ("{}", "`command` is missing"),
        ('{"command": ""}', "is empty"),
    ],
)
def test_malformed_tool_arguments_are_a_typed_format_error(arguments, reason):
    found = command("native", "", [api(arguments)])
    assert isinstance(found, FormatError)
    assert reason in found.reason


def test_several_tool_calls_none_of_them_runs():
    call = api('{"command": "ls"}')
    assert "2 tool calls" in command("native", "", [call, call]).reason
    assert "no tool 'python'" in command("native", "", [api("{}", "python")]).reason
    assert "no name" in command("native", "", [api("{}", " ")]).reason


@pytest.mark.parametrize("form", TEXT_FORMATS)
def test_text_formats_refuse_tool_calls_of_the_api(form):
    assert "call no API tools" in command(form, FORMATS[form].example, [api('{"command": "ls"}')]).reason


def test_other_tools_keep_their_arguments():
    call = Call(
        "read_code", {"path": "a.py", "lines": [1, 2.5], "deep": {"x": None}, "flag": True, "text": "ü</tool_call>"}
    )
    for form in (FORMATS["tool_call"], FORMATS["toolcall"]):
        assert form.read(form.write(call), ()) == call
    assert FORMATS["native"].read("", [native.tool_call(call)]) == call
    assert FORMATS["native"].read("", [api("", "finish")]) == Call("finish", {})


@pytest.mark.parametrize(
    ("form", "call", "reason"),
    [
        ("tool_bash", Call("bash", {"command": "grep '</tool>' x"}), "stands more than once"),
        ("tool_bash", Call("bash", {"command": "echo '<tool: bash>'"}), "2 <tool: bash> actions"),
        ("tool_bash", Call("python", {"code": "1"}), "no tool 'python'"),
        ("markdown_bash", Call("python", {"code": "1"}), "no tool 'python'"),
        ("markdown_bash", Call("bash", {"command": " "}), "is empty"),
        ("toolcall", Call("two words", {}), "[ARGS]"),
        ("tool_call", Call("pairs", {"x": (1, 2)}), "another call"),
    ],
)
def test_a_call_that_a_format_cannot_spell_is_an_error_not_another_call(form, call, reason):
    with pytest.raises(ActionError) as caught:
        FORMATS[form].write(call)
    assert reason in caught.value.message
