"""`uchide doctor` and `uchide shell`: this host, and the inside of a sandbox."""

from typing import Annotated

import typer

from uchide.cli.options import RootOption, experiment_file
from uchide.cli.text import say, table


def doctor(root: RootOption = None) -> None:
    """Check for real whether this host can run Uchide; exit 1 where something is missing."""
    from uchide.paths import cache_dir, find_root
    from uchide.sandboxes.doctor import checks

    found = checks(cache=cache_dir(), artifacts=find_root(root).artifacts)
    say(table([["ok" if item.ok else "MISSING", item.name, item.detail] for item in found]))
    bad = [item for item in found if not item.ok]
    for item in bad:
        say(f"\n{item.name}: {item.fix}")
    if bad:
        raise typer.Exit(1)


def shell(
    instance: Annotated[str, typer.Argument(help="Instance id.")],
    candidate: Annotated[
        str | None, typer.Option("--candidate", metavar="ID", help="Apply this candidate's patch: ARM.RUN.INSTANCE.")
    ] = None,
    experiment: Annotated[
        str | None, typer.Option("--experiment", "-e", help="Where from; by default an experiment that has it.")
    ] = None,
    root: RootOption = None,
) -> None:
    """Run commands in an instance's sandbox, line by line, as an agent would; end with `exit` or Ctrl-D."""
    import asyncio

    from uchide.cli.inside import enter, owner
    from uchide.paths import find_root

    where = find_root(root)
    path = experiment_file(where, experiment or owner(where, instance, candidate))
    asyncio.run(enter(where, path, instance, candidate))
