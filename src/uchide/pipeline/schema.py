"""`python -m uchide.pipeline.schema` writes `workflow/schemas/` from the models."""

from pathlib import Path

from uchide.agents.trajectory import json_schema as trajectory_schema
from uchide.paths import find_root
from uchide.pipeline.experiment import json_schema
from uchide.store.atomic import write_json


def schema_path(root: Path) -> Path:
    return root / "workflow" / "schemas" / "experiment.schema.json"


def trajectory_path(root: Path) -> Path:
    return root / "workflow" / "schemas" / "trajectory.schema.json"


if __name__ == "__main__":
    write_json(schema_path(find_root().path), json_schema())
    write_json(trajectory_path(find_root().path), trajectory_schema())
