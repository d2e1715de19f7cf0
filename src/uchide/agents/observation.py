"""What a model gets to see of a command: its return code and its output, shortened in the middle."""

from uchide.protocols import ExecResult


def shorten(text: str, limit: int, already_omitted: int = 0) -> str:
    """`text` with its middle replaced by a marker when it is longer than `limit` characters."""
    if len(text) <= limit and not already_omitted:
        return text
    kept = min(limit, len(text)) // 2
    gone = len(text) - 2 * kept + already_omitted
    return f"{text[:kept]}\n[... {gone} characters left out ...]\n{text[len(text) - kept :]}"


def returncode(result: ExecResult) -> int | str:
    """The number, or the reason why the command was killed."""
    if result.returncode is not None:
        return result.returncode
    return result.killed or "killed"


def render(result: ExecResult, limit: int) -> str:
    """The observation message. Bytes that are not UTF-8 are replaced; decoding is done once, over the whole output."""
    text = shorten(result.output.decode("utf-8", "replace"), limit, result.omitted)
    return f"<returncode>{returncode(result)}</returncode>\n<output>\n{text.removesuffix(chr(10))}\n</output>"
