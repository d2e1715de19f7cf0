"""Action formats: from a model's reply to exactly one action, or the reason why not."""

from uchide.actions import tool_bash
from uchide.actions.base import ActionFormat, Call, FormatError, shell_command

FORMATS: dict[str, ActionFormat] = {form.name: form for form in (tool_bash.FORMAT,)}

__all__ = ["FORMATS", "ActionFormat", "Call", "FormatError", "shell_command"]
