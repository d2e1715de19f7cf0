"""The page and the job summary: what they show, and that nothing in them is anything but text."""

import dataclasses
import re
from html.parser import HTMLParser

import pytest

from tests.support.report import candidate, graded, instance, realistic, turn, write_trajectory
from uchide.errors import ReportError, StoreError
from uchide.records import Excluded, Matrix, PatchEntry, Pick, PickGraded, Suite, SuiteEntry
from uchide.records import TestEntry as Entry
from uchide.report import ArmInputs, ReportInputs, build
from uchide.report.diff import DIFF_LINES, view_diff
from uchide.report.page import markdown_cell, seconds
from uchide.report.trajectory import load_trajectory
from uchide.report.visible import clip, one_line, visible

VOID = {"meta", "link", "br", "hr", "img", "input", "wbr"}
RUN = "r01_s1001"
HOSTILE = (
    "</pre><script>alert(1)</script>]]>{{ 7*7 }}{% raw %}\x1b[31mred\x07\x00 \u202etxt.exe\u2066 \ud800 <!-- &lt; \"'"
)


class Page(HTMLParser):
    """Collects tags, attributes and text; fails on a tag that is closed in the wrong order."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        assert len(attrs) == len(dict(attrs)), f"an attribute twice in {tag}"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> at {self.getpos()}"

    def handle_data(self, data):
        self.text += data

    def having(self, tag: str, **wanted: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag and wanted.items() <= attrs.items()]


def hostile(folder, text: str = HOSTILE) -> ReportInputs:
    """One instance of one run in which every free text is `text`."""
    suite = Suite(instance_id="a", fail_to_pass=(text,), pass_to_pass=("t2",))
    made = candidate(RUN, "a", f"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-1\n+{text}\n", suite=suite,
                     report=text, warnings=(text,), error=text)  # fmt: skip
    row = graded(made, "wrong_fix", message=text, fail_to_pass_failed=(text,))
    sha = made.patch_sha256
    tests = tuple(Entry(id=t, kind=kind, base=(), own_patch=(), dropped="")
                  for t, kind in ((text, "fail_to_pass"), ("t2", "pass_to_pass")))  # fmt: skip
    matrix = Matrix(
        instance_id="a", arm="main", error=text,
        patches=(PatchEntry(patch_sha256=sha, runs=(RUN,), chars=9, applies=True),),
        suites=(SuiteEntry(suite_sha256=suite.sha256, runs=(RUN,), admitted=True, tests=tests),
                SuiteEntry(suite_sha256="0" * 64, runs=(RUN,), admitted=False, reason=text, tests=())),
        outcomes={sha: {suite.sha256: {text: "failed", "t2": "passed"}}},
    )  # fmt: skip
    pick = Pick(instance_id="a", arm="main", selector="cross_agent", run=RUN, patch_sha256=sha, reason=text,
                scores={sha: 0.7})  # fmt: skip
    said = text.replace("\ud800", "")
    spoken = turn(1, said, reply=f"THOUGHT: {said}\nFINAL_ANSWER: x", action=said, observation=said, format_error=said)
    path = write_trajectory(folder / "t.zst", made, [spoken])
    arm = ArmInputs(name="main", runs=(RUN,), candidates=[made], graded=[row], matrices=[matrix],
                    picks=[PickGraded(pick=pick, verdict=row.verdict)], agent=text, model=text)  # fmt: skip
    given = instance("a", text)
    issue = given.issue.model_copy(update={"snippet": text, "observed": text, "expected": text, "repo": text})
    return ReportInputs(
        experiment="hostile", title=text, description=text, arms=(arm,), warnings=(text,), command=text, spec=text,
        instances=[given.model_copy(update={"issue": issue})], excluded=[Excluded(instance_id="z", reason=text)],
        versions={"x": text}, trajectories={made.candidate_id: path},
    )  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    inputs = realistic(folder / "trajectories", n=4, k=3)
    summary = build(inputs, folder / "out")
    html = (folder / "out" / "index.html").read_text(encoding="utf-8")
    return inputs, summary, html, Page(html)


def test_hostile_text_is_shown_as_text(tmp_path):
    build(hostile(tmp_path), tmp_path / "out")
    html = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    page = Page(html)
    assert not page.having("script")
    shown = "alert(1)</script>]]>{{ 7*7 }}{% raw %}␛[31mred␇␀ <U+202E>txt.exe<U+2066> "
    assert page.text.count(shown) >= 15
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", html)
    assert not any(name.startswith("on") or name == "style" for _, attrs in page.tags for name in attrs)


def test_hostile_text_is_harmless_in_the_job_summary(tmp_path):
    build(hostile(tmp_path, HOSTILE + " | **b** [x](http://e.example) @you #1 `c`\n# title"), tmp_path / "out")
    text = (tmp_path / "out" / "summary.md").read_text(encoding="utf-8")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    assert "<script" not in text
    assert "](http" not in text
    assert "\n# title" not in text
    assert "@you" not in text


def test_the_page_is_well_formed_and_its_links_lead_somewhere(built):
    page = built[3]
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    targets = {attrs["href"] for _, attrs in page.tags if attrs.get("href", "").startswith("#")}
    assert len(targets) > 4 * 3
    assert targets <= {f"#{name}" for name in ids}


def test_the_page_fetches_nothing(built, tmp_path):
    build(hostile(tmp_path), tmp_path / "out")
    for html in (built[2], (tmp_path / "out" / "index.html").read_text(encoding="utf-8")):
        page = Page(html)
        for tag, attrs in page.tags:
            assert tag not in {"script", "link", "img", "iframe", "object", "embed", "base", "form"}
            assert "src" not in attrs
            assert re.fullmatch(r"#[\w.-]+|summary\.json|tables/[a-z_]*(\.csv)?", attrs.get("href", "#ok")), attrs
        css = html[html.index("<style>") : html.index("</style>")]
        assert "url(" not in css
        assert "@import" not in css
        assert "@font-face" not in css


def test_the_headline_shows_the_numbers_of_the_summary(built):
    _, summary, _, page = built
    text = " ".join(page.text.split())
    assert f"Mean pass@1{summary.pass_at_1.mean:.1f} of 4" in text
    assert f"Selected{summary.selected['cross_agent']} of 4by cross_agent" in text
    assert f"Oracle{summary.oracle} of 4" in text
    assert "4 issues are a small sample" in text
    assert "1 excluded" in text


def test_the_grid_says_every_outcome_in_words_and_marks_the_picks(built):
    inputs, _, _, page = built
    arm = inputs.arms[0]
    said = {attrs["aria-label"] for attrs in page.having("a") if "aria-label" in attrs}
    infra = {c.candidate_id for c in arm.candidates if c.exit_status == "infra"}
    picks = {(p.pick.run, p.pick.instance_id) for p in arm.picks if p.pick.selector == "cross_agent"}
    expected = set()
    for row in arm.graded:
        category = "infra" if row.candidate_id in infra else row.verdict.category.replace("_", " ")
        mark = ", picked" if (row.run, row.instance_id) in picks else ""
        expected.add(f"{row.instance_id}, {row.run}: {category}{mark}")
    assert said == expected
    assert len(page.having("a", **{"class": "picked"})) == sum(run is not None for run, _ in picks)


def test_every_distinct_patch_is_shown_once_with_its_diff(built):
    inputs, _, html, page = built
    distinct = {(c.instance_id, c.patch_sha256) for c in inputs.arms[0].candidates if c.patch}
    assert len(page.having("div", **{"class": "patch"})) == len(distinct)
    assert html.count('<span class="add">+        if not predicate') == len(distinct)


def test_the_matrix_counts_tests_and_marks_a_patch_on_its_own_suite(tmp_path):
    build(hostile(tmp_path, "plain"), tmp_path / "out")
    page = Page((tmp_path / "out" / "index.html").read_text(encoding="utf-8"))
    (cell,) = page.having("td", **{"class": "x own"})
    assert cell["title"] == "failed  plain\npassed  t2"
    assert "0/1" in page.text
    assert "1/1" in page.text
    assert "0.700" in page.text


def test_two_arms_have_their_own_sections(tmp_path):
    one = hostile(tmp_path, "plain")
    rows = one.arms[0]
    arm = ArmInputs(name="other", runs=rows.runs, candidates=rows.candidates, graded=rows.graded)
    build(dataclasses.replace(one, arms=(rows, arm)), tmp_path / "out")
    page = Page((tmp_path / "out" / "index.html").read_text(encoding="utf-8"))
    assert len([1 for attrs in page.having("section") if str(attrs.get("id")).endswith("-results")]) == 2
    assert "No selector has picked yet" in page.text


def test_a_long_trajectory_is_cut_with_a_notice(tmp_path):
    made = candidate(RUN, "a", "x")
    turns = [turn(n, "CODE_FIX", observation=f"<returncode>1</returncode>\n<output>\n{'y' * 9000}\n</output>",
                  returncode=1) for n in range(1, 1001)]  # fmt: skip
    (phase,) = load_trajectory(write_trajectory(tmp_path / "t.zst", made, turns), 20_000).phases
    shown = [t.n for t in phase.turns]
    assert (phase.n_turns, phase.left_out) == (1000, 1000 - len(shown))
    assert shown[:2] == [1, 2]
    assert shown[-2:] == [999, 1000]
    assert sum(len(t.action) + len(t.observation) + len(t.thought) for t in phase.turns) < 30_000
    assert "characters left out" in phase.turns[0].observation
    assert phase.turns[0].observation.startswith("yyy")


def test_phases_visits_errors_and_refusals_are_told_apart(tmp_path):
    made = candidate(RUN, "a", "x")
    turns = [
        turn(1, "CODE_FIX", format_error="two actions", action=None, reply="nonsense", token=""),
        turn(2, "CODE_FIX", token="COMPLETE", action=None, rejected=("fix.patch",), returncode=None),
        turn(3, "VERIFY_PATCH", returncode="timeout"),
        turn(4, "CODE_FIX").model_copy(update={"visit": 2}),
    ]
    view = load_trajectory(write_trajectory(tmp_path / "t.zst", made, turns), 20_000)
    assert [(p.name, p.visit, p.n_turns, p.format_errors) for p in view.phases] == [
        ("CODE_FIX", 1, 2, 1), ("VERIFY_PATCH", 1, 1, 0), ("CODE_FIX", 2, 1, 0),
    ]  # fmt: skip
    first, second = view.phases[0].turns
    assert (first.action, first.problem) == ("nonsense", "two actions")
    assert (second.action, second.problem) == ("COMPLETE", "refused, missing: fix.patch")
    assert view.phases[0].outcome == "complete → VERIFY_PATCH"
    assert view.phases[1].turns[0].returncode == "timeout"
    assert view.notice == ""


def test_a_damaged_trajectory_is_said_or_stops_the_report(tmp_path):
    made = candidate(RUN, "a", "x")
    path = write_trajectory(tmp_path / "t.zst", made, [turn(n, "CODE_FIX") for n in range(1, 4)])
    path.write_bytes(path.read_bytes()[:-60])
    cut = load_trajectory(path, 20_000)
    assert cut.notice == "The trajectory stops without an end record."
    assert [t.n for phase in cut.phases for t in phase.turns] == [1, 2, 3]
    path.write_bytes(b"not zstd at all")
    with pytest.raises(StoreError):
        load_trajectory(path, 20_000)
    with pytest.raises(ReportError, match="missing"):
        load_trajectory(tmp_path / "none", 20_000)


def test_a_diff_keeps_lines_that_look_like_headers_and_is_cut_with_a_count():
    patch = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- old\n+++ new\n same\n"
    view = view_diff(patch)
    assert [(b.kind, b.text.count("\n") + 1) for b in view.blocks] == [
        ("file", 3), ("hunk", 1), ("del", 1), ("add", 1), ("same", 1),
    ]  # fmt: skip
    assert (view.added, view.removed, view.left_out) == (1, 1, 0)
    long = view_diff(patch + "+line\n" * 1000)
    assert long.left_out == 1007 - DIFF_LINES
    assert sum(b.text.count("\n") + 1 for b in long.blocks) == DIFF_LINES
    wide = view_diff(patch + ("+" + "x" * 5000 + "\n") * 100)
    assert sum(len(b.text) for b in wide.blocks) < 17_000
    assert wide.left_out > 50


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("plain", "plain"),
        ("tab\tand\nnewline\r\n", "tab\tand\nnewline\n"),
        ("a\rb", "a␍b"),
        ("\x7f\x85", "␡<U+0085>"),
        ("e\u0301 日本 😀", "e\u0301 日本 😀"),
        ("\u200b\ufeff\u2028\u061c", "<U+200B><U+FEFF><U+2028><U+061C>"),
        ("\U000e0041", "<U+E0041>"),
        ("\udcff", "<U+DCFF>"),
    ],
)
def test_visible(given, shown):
    assert visible(given) == shown


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.04, "0.0 s"), (9.9, "9.9 s"), (12, "12 s"), (59.7, "1 min 00 s"), (200, "3 min 20 s"), (7500, "2 h 05 min")],
)
def test_seconds(value, text):
    assert seconds(value) == text


def test_short_texts():
    assert one_line("a\n  b\tc") == "a b c"
    assert len(one_line("x" * 500, 50)) == 50
    assert clip("x" * 10, 10) == "x" * 10
    assert clip("a" * 60 + "b" * 60, 60).startswith("a" * 40 + "\n… 60 characters left out …\n" + "b" * 20)
    assert str(markdown_cell("a_b __init__ x|y")) == "a_b &#95;&#95;init&#95;&#95; x&#124;y"
