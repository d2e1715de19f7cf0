"""Client of the fork servers: one server per edited file, started when first needed."""

import json
import os
import subprocess
import sys
from typing import Dict, List, NamedTuple, Optional, Sequence

HERE = os.path.dirname(os.path.abspath(__file__))


class Outcome(NamedTuple):
    """How one execution of the reproduction ended; rc < 0 is the signal."""

    rc: int
    out: str
    err: str


class Forks:
    """Runs the reproduction with edited files. Use as a context manager."""

    def __init__(
        self, root: str, script: str, load_order: Sequence[str], modules: Sequence[Sequence[str]], cpu_s: float
    ) -> None:
        self.root = os.path.realpath(root)
        self.script = script
        self.load_order = list(load_order)
        self.modules = list(modules)
        self.cpu_s = cpu_s
        self.servers = {}  # type: Dict[str, Optional[subprocess.Popen]]

    def __enter__(self) -> "Forks":
        return self

    def __exit__(self, *_: object) -> None:
        for server in self.servers.values():
            if server is not None:
                server.stdin.close()
                server.wait()
                server.stdout.close()

    def run(self, sources: Dict[str, bytes]) -> Optional[Outcome]:
        """Run with these files (paths relative to the root) replaced; None if the run never loads them."""
        first = min((path for path in sources if path in self.load_order), key=self.load_order.index)
        if first not in self.servers:
            self.servers[first] = self._start(first)
        server = self.servers[first]
        if server is None:
            return None
        absolute = {os.path.join(self.root, path): data.decode("utf-8") for path, data in sources.items()}
        server.stdin.write(json.dumps({"sources": absolute}) + "\n")
        server.stdin.flush()
        line = server.stdout.readline()
        if not line:
            server.wait()
            self.servers[first] = None
            return None
        answer = json.loads(line)
        return Outcome(answer["rc"], answer["out"], answer["err"])

    def _start(self, path: str) -> Optional[subprocess.Popen]:
        argv = [sys.executable, os.path.join(HERE, "server.py"), self.script, os.path.join(self.root, path)]
        argv += ["%.2f" % self.cpu_s, "1024"]
        server = subprocess.Popen(
            argv, cwd=self.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True
        )
        later = self.load_order[self.load_order.index(path) + 1 :]
        setup = {"modules": self.modules, "files": [os.path.join(self.root, name) for name in later]}
        server.stdin.write(json.dumps(setup) + "\n")
        server.stdin.flush()
        line = server.stdout.readline()
        if not line or not json.loads(line)["ready"]:
            server.stdin.close()
            server.wait()
            server.stdout.close()
            return None
        return server


def same_output(got: str, expected: str) -> bool:
    """Equal but for blanks at line ends and at the end."""
    return clean(got) == clean(expected)


def clean(text: str) -> List[str]:
    return [line.rstrip() for line in text.rstrip().split("\n")]
