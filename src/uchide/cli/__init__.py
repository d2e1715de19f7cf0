"""The command line. Each command imports what it needs when it runs, so that a run with nothing to do stays cheap."""
