"""Action formats: from a model's reply to exactly one action, or the reason why not."""

from uchide.actions import markdown_bash, native, tool_bash, tool_call, toolcall
from uchide.actions.base import ActionFormat, Call, FormatError, shell_command

FORMATS: dict[str, ActionFormat] = {
    module.FORMAT.name: module.FORMAT for module in (tool_bash, markdown_bash, tool_call, toolcall, native)
}

__all__ = ["FORMATS", "ActionFormat", "Call", "FormatError", "shell_command"]
