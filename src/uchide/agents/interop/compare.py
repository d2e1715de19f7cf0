"""Two trajectories side by side, in numbers."""

from uchide.agents.interop.model import Imported
from uchide.records import digest

Row = tuple[str, str, str]
"""What, of the first, of the second."""


def compare(first: Imported, second: Imported) -> list[Row]:
    """Rows of a table; `?` stands for what a file does not say."""
    rows = [
        (name, one, two)
        for name, (one, two) in zip(_NAMES, zip(_facts(first), _facts(second), strict=True), strict=True)
    ]
    tools = sorted({*first.tools, *second.tools}, key=lambda name: (-first.tools[name] - second.tools[name], name))
    rows += [(f"  {name}", str(first.tools[name]), str(second.tools[name])) for name in tools]
    equal = same_patch(first, second)
    return [*rows, ("patches equal", "?" if equal is None else "yes" if equal else "no", "")]


_NAMES = (
    *("format", "agent", "model", "instance", "exit", "steps", "phases", "problems"),
    *(
        "prompt tokens",
        "completion tokens",
        "cached tokens",
        "cost (USD)",
        "model calls",
        "patch (characters)",
        "actions",
    ),
)


def _facts(item: Imported) -> list[str]:
    usage = item.usage
    visits = dict.fromkeys((step.phase, step.visit) for step in item.steps if step.phase)
    counts = [] if usage is None else [usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens]
    return [
        item.source,
        item.agent or "?",
        item.model or "?",
        item.instance_id or "?",
        item.exit_status or "?",
        str(len(item.steps)),
        str(len(visits)),
        str(sum(bool(step.problem) for step in item.steps)),
        *(["?"] * 3 if usage is None else ["?" if count is None else f"{count:,}" for count in counts]),
        "?" if usage is None or usage.cost is None else f"{usage.cost:.4f}",
        "?" if usage is None else str(usage.calls),
        "?" if item.patch is None else f"{len(item.patch):,}",
        str(item.acts),
    ]


def same_patch(first: Imported, second: Imported) -> bool | None:
    """Whether both made the same patch, apart from white space at its ends; None where one does not say."""
    one, two = first.patch, second.patch
    if one is not None and two is not None:
        return one.strip() == two.strip()
    hashes = [item.patch_sha256 or (digest(item.patch) if item.patch is not None else "") for item in (first, second)]
    return hashes[0] == hashes[1] if all(hashes) else None
