"""`uchide artifacts`: check, list, measure and clean the store."""

from typing import Annotated

import typer

from uchide.cli.options import RootOption
from uchide.cli.text import plural, say, table

app = typer.Typer(help="Check, list, measure and clean the store.", no_args_is_help=True)

Which = Annotated[
    list[str] | None, typer.Argument(help="Experiments, artifact names or folders; by default everything.")
]


@app.command()
def verify(which: Which = None, root: RootOption = None) -> None:
    """Re-read every byte and compare it with the manifests."""
    from uchide.paths import find_root
    from uchide.store import Artifact
    from uchide.store import verify as check
    from uchide.store.contents import chosen

    count = files = 0
    for path in chosen(find_root(root), which or []):
        files += check(Artifact(path))
        count += 1
    say(f"{plural(count, 'artifact')}, {plural(files, 'file')}: all as their manifests say")


@app.command("ls")
def list_(which: Which = None, root: RootOption = None) -> None:
    """List artifacts: rows, size, content, and who points to them."""
    from uchide.paths import find_root
    from uchide.store.contents import chosen, listing, pointed_by

    where = find_root(root)
    names = pointed_by(where)
    rows = [
        [item.name, str(item.rows), size(item.bytes), item.content[:12], " ".join(names.get(item.name, []))]
        for item in map(listing, chosen(where, which or []))
    ]
    say(table(rows, head=["artifact", "rows", "size", "content", "used by"]))


@app.command()
def du(which: Which = None, root: RootOption = None) -> None:
    """Disk use by stage."""
    from uchide.paths import find_root
    from uchide.store.contents import chosen, listing

    total: dict[str, int] = {}
    for item in map(listing, chosen(find_root(root), which or [])):
        total[item.label] = total.get(item.label, 0) + item.bytes
    rows = [[label, size(count)] for label, count in sorted(total.items(), key=lambda pair: -pair[1])]
    say(table([*rows, ["total", size(sum(total.values()))]]))


@app.command()
def gc(
    yes: Annotated[bool, typer.Option("--yes", help="Remove them; without it they are only listed.")] = False,
    root: RootOption = None,
) -> None:
    """Remove artifacts that no experiment points to, directly or through another artifact."""
    from uchide.paths import find_root
    from uchide.store.contents import folder_size, garbage, remove

    where = find_root(root)
    found = garbage(where)
    freed = sum(folder_size(path) for path in found)
    for path in found:
        say(f"{'removed' if yes and remove(path) else 'unused'}: {path.name}")
    say(f"{plural(len(found), 'artifact')}, {size(freed)}" + ("" if yes or not found else "; to remove them: --yes"))


def size(count: int) -> str:
    """Bytes in the unit that suits."""
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"
