"""The report of an experiment: `summary.json`, tables, `summary.md` and a self-contained page."""

from uchide.report.inputs import ArmInputs, ArtifactRef, ReportInputs, StageTime

__all__ = ["ArmInputs", "ArtifactRef", "ReportInputs", "StageTime"]
