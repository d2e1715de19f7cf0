"""The tools that are copied into a sandbox: single standard-library files that run on any Python from 3.6 on."""

from pathlib import Path

TOOL_FILES: dict[str, tuple[str, ...]] = {
    "run_tests": ("run_tests.py", "_test_run.py", "_test_hooks.py"),
    "line_edit": ("line_edit.py",),
    "line_trace": ("line_trace.py", "_tracing.py"),
    "caller_trace": ("caller_trace.py", "_tracing.py"),
    "try_edits": ("try_edits",),
    "mro_check": ("mro_check.py",),
    "import_graph": ("import_graph.py",),
}


def tools_dir() -> Path:
    """Folder that holds every tool."""
    return Path(__file__).resolve().parent


def tool_paths(name: str) -> tuple[Path, ...]:
    """Files and folders (absolute) that must travel together for the tool `name`; KeyError for an unknown name."""
    return tuple(tools_dir() / entry for entry in TOOL_FILES[name])
