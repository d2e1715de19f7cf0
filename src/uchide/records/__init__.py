"""The data models: one frozen pydantic model per row or document that stages hand to one another."""

from uchide.records.base import VOLATILE, Record, canonical, digest
from uchide.records.candidate import Candidate, ExitStatus, Suite, Usage
from uchide.records.instance import (
    Environment,
    Excluded,
    FileContent,
    HiddenInstance,
    Issue,
    PublicInstance,
    Runner,
)
from uchide.records.selection import Matrix, PatchEntry, Pick, PickGraded, SuiteEntry, TestEntry
from uchide.records.verdict import Category, Graded, Preflight, TestStatus, Verdict

__all__ = [
    "VOLATILE",
    "Candidate",
    "Category",
    "Environment",
    "Excluded",
    "ExitStatus",
    "FileContent",
    "Graded",
    "HiddenInstance",
    "Issue",
    "Matrix",
    "PatchEntry",
    "Pick",
    "PickGraded",
    "Preflight",
    "PublicInstance",
    "Record",
    "Runner",
    "Suite",
    "SuiteEntry",
    "TestEntry",
    "TestStatus",
    "Usage",
    "Verdict",
    "canonical",
    "digest",
]
