"""From a Config back to text."""


def dumps(config):
    """Text that loads to an equal Config: top-level values first, then sections in order."""
    lines = []
    _write(config.as_dict(), "", lines)
    return "\n".join(lines) + "\n" if lines else ""


def _write(node, name, lines):
    pairs = [(key, value) for key, value in node.items() if not isinstance(value, dict)]
    children = [(key, value) for key, value in node.items() if isinstance(value, dict)]
    if name and (pairs or not children):
        if lines:
            lines.append("")
        lines.append(f"[{name}]")
    lines.extend(f"{key} = {_protect(value)}".rstrip() for key, value in pairs)
    for key, value in children:
        _write(value, f"{name}.{key}" if name else key, lines)


def _protect(value):
    """Quotes around what the reader would take for a comment or a continued line."""
    quoted = value[:1] in ("'", '"') and value[-1:] == value[:1] and len(value) >= 2
    risky = " #" in value or value.startswith("#") or value.endswith("\\")
    return f'"{value}"' if risky and not quoted else value
