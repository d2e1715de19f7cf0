"""Lets the folder be run as a program wherever it was copied to."""

import os
import sys

if sys.version_info < (3, 8):
    sys.stderr.write("try_edits needs Python 3.8 or newer; this is %s\n" % sys.version.split()[0])
    sys.exit(2)
if __package__:
    from .cli import main
else:
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    from try_edits.cli import main  # type: ignore[import-not-found,no-redef]

sys.exit(main(sys.argv[1:]))
