"""The sandbox of an instance, as every part opens it: base tree, environment, tools and environment variables."""

from pathlib import Path

from uchide.protocols import Limits, SandboxSpec
from uchide.records import PublicInstance
from uchide.testing.runs import runner_variable
from uchide.tools import TOOL_FILES


def instance_spec(
    instance: PublicInstance,
    tree: Path,
    environment: Path | None,
    python_home: Path | None,
    *,
    tools: tuple[str, ...] = ("run_tests",),
    limits: Limits | None = None,
) -> SandboxSpec:
    """Spec of a sandbox for `instance`; `tools` are names of `uchide.tools.TOOL_FILES`."""
    built = instance.environment
    folders = [f"/testbed/{folder}".removesuffix("/.") for folder in built.pythonpath]
    variables = {**built.env, "PYTHONPATH": ":".join(folders), "UCHIDE_RUNNER": runner_variable(built.runner)}
    files = tuple(dict.fromkeys(file for tool in tools for file in TOOL_FILES[tool]))
    return SandboxSpec(
        tree=tree,
        environment=environment,
        python_home=python_home,
        tools=files,
        env=variables,
        limits=limits or Limits(),
    )
