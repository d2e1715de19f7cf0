"""The program `uchide`: its commands, and how its errors become one message and an exit status."""

import signal
import sys
from typing import NoReturn

import typer

from uchide import __version__
from uchide.cli import artifacts, dataset, experiment, host, inbox, trajectory
from uchide.cli.text import safe
from uchide.errors import UchideError
from uchide.redact import scrubbed_traceback

app = typer.Typer(
    help="One push runs a whole software-repair experiment, and any one stage re-runs with the rest held fixed.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("run")(experiment.run)
app.command("plan")(experiment.plan)
app.command("show")(experiment.show)
app.command("status")(experiment.status)
app.command("shell")(host.shell)
app.command("doctor")(host.doctor)
app.add_typer(artifacts.app, name="artifacts")
app.add_typer(dataset.app, name="dataset")
app.add_typer(inbox.app, name="inbox")
app.add_typer(trajectory.app, name="trajectory")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"uchide {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Options of the program itself."""


def run() -> NoReturn:
    """Entry point. Exit status: 0 done, 1 an error with its message, 2 wrong usage, 130 stopped by the user."""
    sys.excepthook = scrubbed_traceback
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure:  # a terminal that is not UTF-8 shows a replacement instead of ending the run
            reconfigure(errors="backslashreplace")
    try:
        app(prog_name="uchide")
    except UchideError as error:
        print(safe(f"error: {error}"), file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.raise_signal(signal.SIGPIPE)
    except OSError as error:
        from uchide.store.atomic import explained

        print(safe(f"error: {explained(error)}"), file=sys.stderr)
        sys.exit(1)
    sys.exit(0)


if __name__ == "__main__":
    run()
