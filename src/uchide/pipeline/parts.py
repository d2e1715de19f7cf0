"""The table of parts: what each stage is made of, which module does the work, and how its results are addressed.

To add a part: a module in `pipeline/stages` with `MODELS`, `VOLATILE_FILES` and `run(work)`, a command in its stage's
program, a rule in `workflow/rules`, a line here, and the job in `plan.py`.
"""

from dataclasses import dataclass
from typing import Literal

SCHEMA = 1
"""Version of what artifacts contain. Raising it makes every stage run again."""

STAGES: tuple[str, ...] = ("prepare", "test", "bench", "tts", "report")
"""In the order they run."""


@dataclass(frozen=True)
class PartKind:
    """One kind of job."""

    stage: str
    kind: str
    module: str
    address: Literal["calm", "key"]
    """`calm`: blind to code, drift is only printed. `key`: other code is another artifact."""
    parallel: bool = False
    """It works on rows with processes of their own, several at once."""
    data: tuple[str, ...] = ()
    """Globs under `src/uchide`: prompts, templates, and programs that run inside a sandbox. They count as its code."""

    @property
    def label(self) -> str:
        return f"{self.stage}-{self.kind}" if self.kind else self.stage

    @property
    def entry(self) -> str:
        return f"uchide.pipeline.stages.{self.module}"

    @property
    def program(self) -> str:
        return f"{self.stage}.py"


_SANDBOX = ("sandboxes/guest.py", "sandboxes/etc/*")
_RUNNER = ("tools/run_tests.py", "tools/_test_*.py", *_SANDBOX)
_AGENT = (
    "agents/**/*.md",
    "agents/**/*.yaml",
    "llm/**/*.py",
    "llm/**/*.yaml",
    "llm/**/*.md",
    "tools/**/*.py",
    *_SANDBOX,
)
"""Models are imported by name, which no import statement shows."""
_PAGE = ("report/**/*.j2", "report/**/*.css")

_PARTS = (
    PartKind("prepare", "public", "prepare_public", "calm", True, ("datasets/*.lock",)),
    PartKind("prepare", "hidden", "prepare_hidden", "calm", True, _RUNNER),
    PartKind("prepare", "", "collect", "calm"),
    PartKind("test", "", "preflight", "key", True, _RUNNER),
    PartKind("bench", "generate", "bench_generate", "calm", True, _AGENT),
    PartKind("bench", "grade", "bench_grade", "calm", True, _RUNNER),
    PartKind("bench", "", "collect", "calm"),
    PartKind("tts", "matrix", "tts_matrix", "key", True, _RUNNER),
    PartKind("tts", "pick", "tts_pick", "key"),
    PartKind("tts", "grade", "tts_grade", "key"),
    PartKind("tts", "", "collect", "key"),
    PartKind("report", "", "report", "key", data=_PAGE),
)

PARTS: dict[str, PartKind] = {part.label: part for part in _PARTS}


def parts_of(stage: str) -> list[PartKind]:
    return [part for part in _PARTS if part.stage == stage]
