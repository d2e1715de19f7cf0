"""The sandbox of an instance, as every part opens it: base tree, environment, tools and environment variables."""

from pathlib import Path

from uchide.protocols import Limits, SandboxSpec
from uchide.records import PublicInstance
from uchide.testing.runs import RUN_TESTS, runner_variable


def instance_spec(
    instance: PublicInstance,
    tree: Path,
    environment: Path | None,
    python_home: Path | None,
    *,
    tools: tuple[str, ...] = RUN_TESTS,
    limits: Limits | None = None,
) -> SandboxSpec:
    """Spec of a sandbox for `instance`; `tools` are files and folders of `uchide/tools`."""
    built = instance.environment
    folders = [f"/testbed/{folder}".removesuffix("/.") for folder in built.pythonpath]
    variables = {**built.env, "PYTHONPATH": ":".join(folders), "UCHIDE_RUNNER": runner_variable(built.runner)}
    return SandboxSpec(
        tree=tree,
        environment=environment,
        python_home=python_home,
        tools=tools,
        env=variables,
        limits=limits or Limits(),
    )
