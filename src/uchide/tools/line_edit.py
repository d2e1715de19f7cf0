"""Edit one line of a file, guarded by the text that is expected to stand there.

    python line_edit.py [--json FILE]      (without --json: JSON on standard input)

JSON: {"path": "src/x.py", "line": 12, "expect": "    return a", "new": "    return b", "op": "replace"}
or {"edits": [...]}. op is replace (default), insert_before, insert_after or delete; `expect` is the whole present line
in all four, `new` may hold several lines, one final newline in it is ignored. Line numbers count \\n only and mean the
file as it is before the call. A list of edits is applied whole or not at all. Paths are relative to the current folder
(or --root) and stay in it.

Files are bytes here: other lines, line ends, a BOM, a missing final newline, mode, owner and links stay as they are.
Nothing is matched approximately; on a mismatch the answer says how the line differs and where the expected text is.
Exit: 0 done, 2 usage, 3 the guard did not match, 4 refused.
"""

import argparse
import json
import os
import re
import stat
import sys
import tempfile
import unicodedata
import warnings

MAX_BYTES = 8 << 20
OPS = ("replace", "insert_before", "insert_after", "delete")
LOOK_ALIKES = {0x2018: "'", 0x2019: "'", 0x201C: '"', 0x201D: '"', 0x200B: None, 0xFEFF: None}
LOOK_ALIKES.update(dict.fromkeys([0x2010, 0x2011, 0x2012, 0x2013, 0x2014, 0x2212], "-"))
LOOK_ALIKES.update(dict.fromkeys([0xA0, 0x202F, 0x2009, 0x3000], " "))
BOM = b"\xef\xbb\xbf"


class Stop(Exception):
    """Ends the call with an exit code and a message."""

    def __init__(self, code, message):
        Exception.__init__(self, message)
        self.code = code


def split_lines(data):
    """Lines with their ends. Only \\n ends a line: numbers agree with git, grep and compilers."""
    parts = data.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def line_end(line):
    return b"\r\n" if line.endswith(b"\r\n") else b"\n" if line.endswith(b"\n") else b""


def body(line):
    return line[: len(line) - len(line_end(line))]


def encode(text):
    return text.encode("utf-8", "surrogateescape")


def visible(data):
    """The line in ASCII; tabs as an arrow, everything else unusual escaped."""
    text = data.decode("utf-8", "surrogateescape")
    return "".join("\u2192" if c == "\t" else c if " " <= c <= "~" else ascii(c)[1:-1] for c in text)


def difference(want, data):
    """How the expected text differs from the bytes of the line, in words."""
    try:
        have = data.decode("utf-8")
    except UnicodeDecodeError:
        return "the line holds bytes that are not UTF-8 (shown as \\udcXX)"
    numbered = re.match(r"\s*\d+(\t|:|\|| {2})", want)
    if numbered and have.strip() and want.endswith(have.lstrip()):
        return "expect starts with a line number; give only the text of the line"
    if want.rstrip() == have.rstrip():
        return "differs only in trailing whitespace"
    if want.split() == have.split():
        indent = have[: len(have) - len(have.lstrip())]
        return "differs only in indentation or spacing (the line is indented with %s)" % (
            "tabs" if indent and not indent.strip("\t") else "tabs and spaces" if "\t" in indent else "spaces"
        )
    if unicodedata.normalize("NFC", want) == unicodedata.normalize("NFC", have):
        return "differs only in Unicode composition (NFC/NFD)"
    if want.translate(LOOK_ALIKES) == have.translate(LOOK_ALIKES):
        return "differs only in look-alike characters"
    return "different text"


def resolve(root, path):
    """The real file behind a path; refuses what is outside the tree, in .git, or no plain file."""
    top = os.path.realpath(root)
    real = os.path.realpath(os.path.join(top, path))
    if not real.startswith(top.rstrip(os.sep) + os.sep):
        raise Stop(4, "%s: outside %s" % (path, top))
    if ".git" in os.path.relpath(real, top).split(os.sep):
        raise Stop(4, "%s: inside .git" % path)
    try:
        info = os.stat(real)
    except OSError as error:
        raise Stop(4, "%s: %s" % (path, error.strerror))
    if not stat.S_ISREG(info.st_mode):
        raise Stop(4, "%s: not a regular file" % path)
    if info.st_size > MAX_BYTES:
        raise Stop(4, "%s: %d bytes, the limit is %d" % (path, info.st_size, MAX_BYTES))
    if not info.st_mode & 0o222:  # by mode bits: os.access always says yes to root
        raise Stop(4, "%s: read-only (mode %o)" % (path, stat.S_IMODE(info.st_mode)))
    return real


def read(real, path):
    with open(real, "rb") as file:
        data = file.read()
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise Stop(4, "%s: UTF-16, edit it by other means" % path)
    if b"\0" in data:
        raise Stop(4, "%s: a binary file (it holds a NUL byte)" % path)
    return data


def check_guard(edit, lines):
    path, number, want = edit["path"], edit["line"], encode(edit["expect"])
    inside = 1 <= number <= len(lines)
    if inside and body(lines[number - 1]) == want:
        return
    places = [str(i + 1) for i, line in enumerate(lines) if body(line) == want]
    where = ", ".join(places[:10]) + (" ..." if len(places) > 10 else "") if places else "none"
    where = "  lines with exactly the expected text: " + where
    if not inside:
        raise Stop(3, "%s: there is no line %d, the file has %d\n%s" % (path, number, len(lines), where))
    have = body(lines[number - 1])
    told = "%s: line %d is not what you expected: %s" % (path, number, difference(edit["expect"], have))
    raise Stop(3, "%s\n  expected: %s\n  actual:   %s\n%s" % (told, visible(want), visible(have), where))


def new_lines(edit):
    parts = [encode(part[:-1] if part.endswith("\r") else part) for part in edit["new"].split("\n")]
    return parts[:-1] if len(parts) > 1 and not parts[-1] else parts


def apply_one(edit, lines):
    """Change `lines` in place; how many lines longer they are now."""
    i, op = edit["line"] - 1, edit["op"]
    current = lines[i]
    end = line_end(current)
    inner = end or (line_end(lines[i - 1]) if i else b"") or b"\n"
    if op == "delete":
        del lines[i]
        return -1
    parts = new_lines(edit)
    if op == "replace":
        if parts == [body(current)]:
            raise Stop(4, "%s: no change, the new text equals line %d" % (edit["path"], edit["line"]))
        lines[i : i + 1] = [part + inner for part in parts[:-1]] + [parts[-1] + end]
        return len(parts) - 1
    if op == "insert_before":
        lines[i:i] = [part + inner for part in parts]
    else:
        lines[i : i + 1] = [body(current) + inner] + [part + inner for part in parts[:-1]] + [parts[-1] + end]
    return len(parts)


def syntax_error(path, data):
    """Text of the syntax error of a Python file, None if it has none."""
    if not path.endswith((".py", ".pyi")):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(data, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        return "%s:%s: %s: %s" % (path, error.lineno, type(error).__name__, error.msg)
    except ValueError as error:
        return "%s: %s" % (path, error)
    return None


def write(real, before, after, path):
    """Replace the content of a file, keeping mode, owner and hard links."""
    info = os.stat(real)
    with open(real, "rb") as file:
        if file.read() != before:
            raise Stop(3, "%s: the file changed while it was edited" % path)
    if info.st_nlink > 1:
        with open(real, "r+b") as file:
            file.write(after)
            file.truncate()
        return
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(real), prefix=".line_edit.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.chown(temporary, info.st_uid, info.st_gid)
        except OSError:  # not ours to give; the content and mode still are
            pass
        os.chmod(temporary, stat.S_IMODE(info.st_mode))
        os.replace(temporary, real)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def plan_file(real, edits):
    """(bytes before, bytes after, [(first new line, count, shift)]) of one file; edits bottom-up so numbers hold."""
    before = read(real, edits[0]["path"])
    bom = BOM if before.startswith(BOM) else b""
    lines = split_lines(before[len(bom) :])
    for edit in edits:
        check_guard(edit, lines)
    numbers = [edit["line"] for edit in edits]
    if len(set(numbers)) != len(numbers):
        raise Stop(4, "%s: two edits of the same line in one call" % edits[0]["path"])
    shown, total = [], 0
    for edit in sorted(edits, key=lambda one: -one["line"]):
        shift = apply_one(edit, lines)
        shown = [(first + shift, count) for first, count in shown]
        count = 0 if edit["op"] == "delete" else len(new_lines(edit))
        shown.append((edit["line"] + (edit["op"] == "insert_after"), count))
        total += shift
    return before, bom + b"".join(lines), sorted(shown), total


def show(path, data, shown, shift):
    """The changed places +-3 lines, with the numbers they have now."""
    lines = split_lines(data[len(BOM) :] if data.startswith(BOM) else data)
    wanted, marked = set(), set()
    for first, count in shown:
        wanted.update(range(max(1, first - 3), min(len(lines), first + max(count, 1) - 1 + 3) + 1))
        marked.update(range(first, first + count))
    out = ["%s: %d lines now; later line numbers moved by %+d" % (path, len(lines), shift)]
    last = None
    for number in sorted(wanted):
        if last is not None and number != last + 1:
            out.append("  ...")
        text = body(lines[number - 1]).decode("utf-8", "backslashreplace")
        out.append("%s%6d\t%s" % (">" if number in marked else " ", number, text))
        last = number
    return "\n".join(out)


def load(text):
    """The list of edits of a request, checked."""
    try:
        request = json.loads(text)
    except ValueError as error:
        raise Stop(2, "not JSON: %s" % error)
    edits = request.get("edits") if isinstance(request, dict) and "edits" in request else [request]
    if not isinstance(edits, list) or not edits:
        raise Stop(2, '"edits" must be a list with at least one edit')
    return [check_edit(edit) for edit in edits]


def check_edit(edit):
    if not isinstance(edit, dict):
        raise Stop(2, "an edit must be an object with path, line, expect, new and op, not %s" % json.dumps(edit)[:80])
    edit = dict({"op": "replace"}, **edit)
    unknown = sorted(set(edit) - {"path", "line", "expect", "new", "op"})
    if unknown:
        raise Stop(2, "unknown key %s; known: path, line, expect, new, op" % ", ".join(unknown))
    if edit["op"] not in OPS:
        raise Stop(2, "op %r; known: %s" % (edit["op"], ", ".join(OPS)))
    for key in ("path", "expect") + (() if edit["op"] == "delete" else ("new",)):
        if not isinstance(edit.get(key), str):
            raise Stop(2, '"%s" is missing or not a string' % key)
        if "\0" in edit[key]:
            raise Stop(4, '"%s" holds a NUL character' % key)
        try:
            encode(edit[key])
        except UnicodeEncodeError as error:
            raise Stop(2, '"%s": %s' % (key, error))
    if not isinstance(edit.get("line"), int) or isinstance(edit["line"], bool):
        raise Stop(2, '"line" is missing or not a whole number')
    expect = edit["expect"]
    expect = expect[:-1] if expect.endswith("\n") else expect
    edit["expect"] = expect[:-1] if expect.endswith("\r") else expect
    if "\n" in edit["expect"]:
        raise Stop(2, '"expect" must be one line; "new" may have several')
    return edit


def run(root, text):
    edits = load(text)
    files = {}
    for edit in edits:
        files.setdefault(resolve(root, edit["path"]), []).append(edit)
    plans = {real: plan_file(real, mine) for real, mine in sorted(files.items())}
    done = []
    try:
        for real, (before, after, _, _) in sorted(plans.items()):
            write(real, before, after, files[real][0]["path"])
            done.append(real)
    except BaseException:
        for real in done:  # all or nothing
            write(real, plans[real][1], plans[real][0], files[real][0]["path"])
        raise
    out = []
    for real, (before, after, shown, shift) in sorted(plans.items()):
        path = files[real][0]["path"]
        out.append(show(path, after, shown, shift))
        problem = syntax_error(path, after)
        if problem and syntax_error(path, before) is None:
            out.append("NEW SYNTAX ERROR (the edit was made): " + problem)
        elif problem:
            out.append("the file still does not compile, as before the edit: " + problem)
    return "\n".join(out)


def main(argv):
    parser = argparse.ArgumentParser(prog="line_edit.py", description=__doc__, allow_abbrev=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--json", metavar="FILE", help="read the request from FILE instead of standard input")
    parser.add_argument("--root", default=".", help="edits stay inside this folder")
    options = parser.parse_args(argv)
    sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
    try:
        if options.json:
            with open(options.json, "rb") as file:
                data = file.read()
        else:
            data = sys.stdin.buffer.read()
        print(run(options.root, data.decode("utf-8")))
    except UnicodeDecodeError as error:
        print("line_edit: the request is not UTF-8: %s" % error)
        return 2
    except Stop as stop:
        print("line_edit: %s" % stop)
        return stop.code
    except OSError as error:
        print("line_edit: %s" % error)
        return 2 if error.filename == options.json else 4
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
