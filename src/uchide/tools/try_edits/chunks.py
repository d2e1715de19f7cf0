"""Compiles a changed module quickly: only the top-level statements that the change touches are compiled anew."""

import ast


class Chunks:
    """A module's text cut into its top-level statements, each compiled once."""

    def __init__(self, data, path):
        self.data = data
        self.path = path
        self.flags = 0
        tree = ast.parse(data)
        starts = [0]
        for line in data.split(b"\n"):
            starts.append(starts[-1] + len(line) + 1)
        firsts = []
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and node.module == "__future__":
                for alias in node.names:
                    self.flags |= getattr(__import__("__future__"), alias.name).compiler_flag
            line = min([node.lineno] + [d.lineno for d in getattr(node, "decorator_list", [])])
            start = starts[line - 1]
            if not firsts or start > firsts[-1][0]:
                firsts.append((start, line))
        ends = [start for start, _ in firsts[1:]] + [len(data)]
        self.pieces = [(start, end, line) for (start, line), end in zip(firsts, ends)]
        self.codes = [self._compile(data[start:end], line) for start, end, line in self.pieces]

    def _compile(self, text, line):
        padding = b"# coding: utf-8\n" + b"\n" * (line - 2) if line > 1 else b""
        return compile(padding + text, self.path, "exec", flags=self.flags, dont_inherit=True)

    def changed(self, data):
        """Code objects of the changed module, to be executed in order; None where only a full compile will do."""
        if not self.pieces:
            return None
        old = self.data
        head = common(old, data)
        tail = common(old[head:][::-1], data[head:][::-1])
        stop = len(old) - tail
        touched = [i for i, (start, end, _) in enumerate(self.pieces) if start <= max(stop, head) and end >= head]
        if head < self.pieces[0][0] or not touched:
            return None
        first, last = touched[0], touched[-1]
        start, line = self.pieces[first][0], self.pieces[first][2]
        end = self.pieces[last][1] + len(data) - len(old)
        if first == 0 or b"__future__" in data[start:end]:
            return None
        shifted = self._compile(data[start:end], line)
        return self.codes[:first] + [shifted] + self.codes[last + 1 :]


def common(one, other):
    """Length of the common prefix."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
