"""What the parts of an experiment file have in common."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of the file: unknown keys and loose types are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
