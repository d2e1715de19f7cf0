"""The skills: the built-in ones are as published and their commands work; a user's own join them or are refused."""

import re
from pathlib import Path

import pytest
import yaml
from support.local import LocalProvider
from support.rollouts import HAPPY, PHASES, play
from support.scripted import header, turn

from uchide import agents
from uchide.agents.phases import skills
from uchide.agents.phases.spec import load_spec
from uchide.errors import ConfigError
from uchide.protocols import Command, SandboxSpec

CART = """def total(items, discount=0):
    amount = 0
    for price, count in items:
        amount += price * count
    return amount - discount
"""
TESTS = """from shop.cart import total


def test_one():
    assert total([(2, 3)]) == 6


def test_two():
    assert total([]) == 0
"""
EVERY = {name: skill.title for name, skill in skills.built_in().items()}
LATE = ("TEST_SYNTHESIZE", "CODE_LOCALIZE", "TEST_LOCALIZE", "CODE_FIX", "VERIFY_PATCH", "ISSUE_CLOSE")


def test_the_built_in_skills_are_the_published_ones():
    found = {(skill.title, skill.phases, skill.tools) for skill in skills.built_in().values()}
    assert found == {
        ("List targeted file paths", "*", ()),
        ("View file content with line numbers", "*", ()),
        ("Maintain the Kanban file", "*", ()),
        ("FAIL_TO_PASS triage (partial pass)", LATE, ("line_trace", "caller_trace")),
        ("Edit python files by git apply", ("CODE_FIX",), ()),
        ("Edit a specific line reliably (no git apply)", ("CODE_FIX",), ("line_edit",)),
        ("Create a new file", "*", ()),
        ("Write non-ASCII content safely", "*", ()),
        ("Restore the repository to its previous state", ("CODE_FIX", "ISSUE_CLOSE"), ()),
        ("Check the edit status of the repository", ("CODE_FIX", "VERIFY_PATCH", "ISSUE_CLOSE"), ()),
        ("Draft the bash command", "*", ()),
        ("List lines of code actually executed", ("CODE_LOCALIZE", "TEST_LOCALIZE"), ("line_trace",)),
        ("Filter lines of code actually executed", ("CODE_LOCALIZE", "TEST_LOCALIZE"), ("line_trace",)),
        (
            "List functions that progressively call the given code (dynamic)",
            ("CODE_LOCALIZE", "TEST_LOCALIZE"),
            ("caller_trace",),
        ),
    }
    assert all(len(skill.text.splitlines()) <= 25 for skill in skills.built_in().values())


def test_the_built_in_skills_name_phases_and_tools_that_exist():
    named = {path: (skills.FOLDER / path).read_text("utf-8") for path in skills.built_in()}
    assert len(skills.with_own(named, load_spec().phases)) == 14


@pytest.fixture
async def sandbox(tmp_path):
    tree = tmp_path / "tree"
    for name, text in (("shop/__init__.py", ""), ("shop/cart.py", CART), ("tests/test_cart.py", TESTS)):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    spec = SandboxSpec(tree, env={"UCHIDE_TOOLS": "/tools", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    async with LocalProvider().open(spec) as opened:
        yield opened


async def output(sandbox, command):
    result = await sandbox.run(Command(("/bin/bash", "-c", command), timeout_s=60))
    text = result.output.decode()
    assert result.returncode == 0, text
    return text


SEEN = {
    "list_paths.md": ["shop/cart.py", "tests/test_cart.py"],
    "view_lines.md": ["1:def total(", "     4\t        amount += price * count"],
    "kanban.md": ["- [ ] TODO: see the fault"],
    "fail_to_pass_triage.md": ["2 3 4 5\n2 3 5\n"],
    "git_apply.md": ["shop/cart.py | 2 +-"],
    "line_edit.md": ["+    return max(0, amount - discount)"],
    "new_file.md": ["5 tests/test_uchide_example.py"],
    "non_ascii.md": [],
    "restore.md": [],
    "edit_status.md": [" M shop/cart.py", "+# new", "notes.txt"],
    "draft_command.md": ["2 passed"],
    "lines_executed.md": ["amount = 6", "1 passed"],
    "filter_lines.md": ["shop/cart.py 4 line {'amount': '6'}", "return {} 6"],
    "callers.md": ["test_cart.py::test_one", "test_cart.py::test_two"],
}


@pytest.mark.parametrize("name", EVERY)
async def test_the_commands_of_a_skill_do_what_it_says(sandbox, name):
    if name in ("edit_status.md", "restore.md"):
        await output(sandbox, "echo '# new' >> shop/cart.py; echo x > notes.txt")
    blocks = re.findall(r"^```bash\n(.*?)^```", skills.built_in()[name].text, re.DOTALL | re.MULTILINE)
    assert blocks
    seen = "".join([await output(sandbox, block) for block in blocks])
    assert [part for part in SEEN[name] if part not in seen] == [], seen
    if name == "kanban.md":
        board = (sandbox.share / "kanban.md").read_text()
        assert board.splitlines()[0] == "- [x] DONE: see the fault with a script (repro.py)"
        assert len(board.splitlines()) == 3
    if name == "restore.md":
        assert (sandbox.testbed / "shop/cart.py").read_text() == CART
        await output(sandbox, "git apply /share/before_restore.patch && grep '# new' shop/cart.py")


async def test_a_skill_is_shown_where_phase_and_tools_allow(tmp_path):
    _, model, _ = await play(tmp_path, HAPPY)
    shown = {}
    for messages in model.requests:
        first = header(messages)
        titles = set(re.findall(r"^### (.*)$", messages[0].content, re.MULTILINE))
        assert shown.setdefault(first["phase"], titles) == titles
        for skill in skills.built_in().values():
            gate = (skill.phases == "*" or first["phase"] in skill.phases) and set(skill.tools) <= set(first["tools"])
            assert (skill.title in titles) == gate
    assert list(shown) == list(PHASES)
    assert [len(titles) for titles in shown.values()] == [6, 7, 10, 10, 11, 8, 9, 6]


async def test_the_free_phase_shows_every_skill_and_the_switch_none(tmp_path):
    options = {"limits": {"steps": 1}, "mechanisms": {"phases": False}}
    _, model, _ = await play(tmp_path / "a", [turn("W0", "true")], options)
    assert model.requests[0][0].content.count("\n### ") == 14
    for switch, count in (("skills", 0), ("tools", 9)):
        options["mechanisms"] = {"phases": False, switch: False}
        _, model, _ = await play(tmp_path / switch, [turn("W0", "true")], options)
        assert model.requests[0][0].content.count("\n### ") == count


MINE = "---\ntitle: Mine\nphases: [ISSUE_REPRODUCE]\ntools: [run_tests]\n---\n\nDo it {{ so }}.\n"


async def test_a_skill_dropped_beside_a_spec_joins_and_one_of_the_same_name_replaces_ours(tmp_path):
    folder = tmp_path / "configs"
    (folder / "skills").mkdir(parents=True)
    (folder / "mine.yaml").write_text(Path(load_spec.__defaults__[0]).read_text())
    (folder / "skills/mine.md").write_text(MINE)
    (folder / "skills/kanban.md").write_text(MINE.replace("Mine", "My board"))
    held = agents.with_files({"spec": "configs/mine.yaml", "limits": {"steps": 1}}, tmp_path)
    (folder / "skills/mine.md").unlink()
    _, model, _ = await play(tmp_path, [turn("W0", "true")], held)
    prompt = model.requests[0][0].content
    assert "### Mine\n\nDo it {{ so }}.\n" in prompt
    assert "### My board" in prompt
    assert "Kanban" not in prompt


async def test_a_folder_of_skills_needs_no_spec_and_is_held_by_content(tmp_path):
    (tmp_path / "extra").mkdir()
    with pytest.raises(ConfigError, match=r"agent\.skills: there is no skill \(\*\.md\) in .*extra"):
        agents.with_files({"skills": "extra"}, tmp_path)
    (tmp_path / "extra/mine.md").write_text(MINE)
    held = agents.with_files({"skills": "extra", "limits": {"steps": 1}}, tmp_path)
    assert held["skills"] == {"files": {"extra/mine.md": MINE}}
    _, model, _ = await play(tmp_path, [turn("W0", "true")], held)
    assert model.requests[0][0].content.count("\n### ") == 7
    with pytest.raises(ConfigError, match=r"agent\.skills: the path of a folder is expected, not 3"):
        agents.create({"skills": 3})
    (tmp_path / "extra/mine.md").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"agent\.skills: .*mine\.md is not UTF-8 \(byte 0\)"):
        agents.with_files({"skills": "extra"}, tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "s.md:1: a skill begins with front matter"),
        ("# Mine\n", "s.md:1: a skill begins with front matter"),
        ("---\ntitle: x\nphases: '*'\n", "s.md:3: the front matter is not closed"),
        ("---\ntitle: x\nphases: [A\n---\nx\n", "s.md:3: not YAML"),
        ("---\ntitle: a: b\nphases: '*'\n---\nx\n", "s.md:2: not YAML"),
        ("---\n- title\n---\nx\n", "s.md:2: `title:`, `phases:` and `tools:` are expected"),
        ("---\ntitle: x\n---\nx\n", "s.md:1: phases: Field required"),
        ("---\ntitle: x\nphases: CODE_FIX\n---\nx\n", 's.md:3: phases: a list of phases, or "*" for all, is expected'),
        ("---\ntitle: x\nphases: '*'\ntool: [a]\n---\nx\n", "s.md:4: tool: Extra inputs are not permitted"),
        ("---\ntitle: ''\nphases: '*'\n---\nx\n", "s.md:2: title: "),
        ("---\ntitle: x\nphases: '*'\n---\n \n", "s.md:4: the skill has no text"),
        (
            "---\ntitle: x\nphases: [CODE_FIXX]\n---\nx\n",
            "s.md:3: phases: unknown 'CODE_FIXX', did you mean 'CODE_FIX'?",
        ),
        ("---\ntitle: x\nphases: '*'\ntools: [hammer]\n---\nx\n", "s.md:4: tools: unknown 'hammer', known: "),
    ],
)
def test_a_file_that_is_no_skill_is_refused_by_file_and_line(text, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        agents.create({"skills": {"files": {"s.md": text}}})


def test_a_skill_may_name_the_phases_of_a_spec_of_ones_own(tmp_path):
    phase = {"goal": "g", "prompt": "free.md", "workflow": ["w"], "on_complete": None, "on_giveup": "ONLY"}
    spec = {"file": "s.yaml", "text": yaml.safe_dump({"schema": 1, "initial": "ONLY", "phases": {"ONLY": phase}})}
    mine = MINE.replace("ISSUE_REPRODUCE", "ONLY")
    assert agents.create({"spec": {**spec, "skills": {"skills/m.md": mine}}}).name == "phases"
    with pytest.raises(ConfigError, match=r"skills/m\.md:3: phases: unknown 'ISSUE_REPRODUCE'"):
        agents.create({"spec": {**spec, "skills": {"skills/m.md": MINE}}})
