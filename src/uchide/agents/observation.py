"""What a model gets to see of a command: its return code and its output, shortened in the middle."""

from uchide.protocols import ExecResult


def shorten(text: str, limit: int, already_omitted: int = 0) -> str:
    """`text` with its middle replaced by a marker when it is longer than `limit` characters. The marker says how much
    is gone; `already_omitted` bytes of the middle were never kept."""
    if len(text) <= limit and not already_omitted:
        return text
    kept = min(limit, len(text)) // 2
    end = len(text) - kept
    gone = f"{end - kept:,} characters ({text.count(chr(10), kept, end):,} lines)"
    if already_omitted:
        gone += f" and {already_omitted:,} more bytes"
    return f"{text[:kept]}\n[... {gone} left out ...]\n{text[end:]}"


def returncode(result: ExecResult) -> int | str:
    """The number, or the reason why the command was killed."""
    if result.returncode is not None:
        return result.returncode
    return result.killed or "killed"


def render(result: ExecResult, limit: int) -> str:
    """The observation message. Bytes that are not UTF-8 are replaced; decoding is done once, over the whole output."""
    text = shorten(result.output.decode("utf-8", "replace"), limit, result.omitted)
    return f"<returncode>{returncode(result)}</returncode>\n<output>\n{text.removesuffix(chr(10))}\n</output>"
