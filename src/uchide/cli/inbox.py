"""`uchide inbox`: see which questions wait in an inbox, read them, answer them."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from uchide.cli.text import duration, plural, say, table

app = typer.Typer(help="Play the model: questions and answers of `model: {name: inbox}`.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(help="The inbox: the model's `dir`.")]
Which = Annotated[str | None, typer.Option(help="A part of SESSION/NUMBER; needed when several questions wait.")]


@app.command("ls")
def list_(folder: Folder) -> None:
    """List the questions that wait for an answer, the oldest first."""
    from uchide.llm.inbox.waiting import waiting

    found = waiting(folder)
    if not found:
        say("nothing waits for an answer")
        return
    rows = [
        [
            each.which,
            each.data["place"],
            each.data["role"],
            plural(len(each.data["messages"]), "message"),
            f"{duration(each.age_s)} ago" + (" (its rollout no longer waits)" if each.is_late else ""),
        ]
        for each in found
    ]
    say(table(rows, head=["question", "place", "role", "conversation", "asked"]))


@app.command()
def show(folder: Folder, which: Which = None) -> None:
    """Print what is new in a question."""
    from uchide.llm.inbox.waiting import choose, waiting

    say(choose(waiting(folder), which).text())


@app.command()
def answer(
    folder: Folder,
    file: Annotated[str, typer.Argument(help="A text, a .json file (text, tool_calls), or - for stdin.")],
    which: Which = None,
    json: Annotated[bool, typer.Option("--json", help="What is read is JSON.")] = False,
) -> None:
    """Answer a question."""
    from uchide.llm.inbox.waiting import choose, waiting

    question = choose(waiting(folder), which)
    data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    say(str(question.give(data, as_json=json or file.endswith(".json"))))
