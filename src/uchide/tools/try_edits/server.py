"""Fork server: runs a script up to the point where a given file is about to be loaded, then forks there per mutant.

Started as a program: `server.py SCRIPT FILE CPU_S MEM_MB`. First line on stdin: {"modules": [[name, file] to import
beforehand], "files": [absolute paths of source files to compile beforehand]}. Then one JSON request a line, {"sources":
{absolute path: text}}, and for each one JSON answer a line on stdout: {"rc", "out", "err"}; rc < 0 is the signal.
The first answer is {"ready": true}; a script that never loads the file ends the server with {"ready": false}.
"""

import gc
import importlib
import json
import os
import resource
import signal
import sys
import tempfile
import traceback

OUTPUT_LIMIT = 1 << 20
WALL_S = 20
RUN_CHUNKS = """
for _try_edits_code in __import__("sys")._try_edits_codes:
    exec(_try_edits_code)
del _try_edits_code
"""


def main(argv):
    script, target, cpu_s, mem_mb = argv
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != here]
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    overlay, chunks = _load(here, "overlay"), _load(here, "chunks")
    setup = json.loads(requests.readline())
    sources, codes = {}, {}
    state = {"serving": True, "chunks": None}

    def before_load(path):
        if path == target and state["serving"]:
            state["serving"] = False
            with open(path, "rb") as file:
                state["chunks"] = chunks.Chunks(file.read(), path)
            _precompile(setup["files"] + [file for name, file in setup["modules"] if name not in sys.modules], codes)
            sources.update(_serve(requests, answers, float(cpu_s), int(mem_mb)))

    def compiler(text, path):
        codes = state["chunks"].changed(text.encode("utf-8")) if path == target else None
        if codes is None:
            return None
        sys._try_edits_codes = codes
        return compile(RUN_CHUNKS, path, "exec")

    overlay.install(sources, before_load, compiler, codes)
    _preload(setup["modules"], state)
    rc = _run(script)
    if state["serving"]:
        answers.write(json.dumps({"ready": False}) + "\n")
        answers.flush()
    os._exit(rc)


def _load(here, name):
    spec = importlib.util.spec_from_file_location("_try_edits_" + name, os.path.join(here, name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _preload(modules, state):
    """Import what the script will import from elsewhere; a mutant, forked meanwhile, imports only what it needs."""
    for name, _ in modules:
        if not state["serving"]:
            return
        try:
            importlib.import_module(name)
        except (ImportError, ValueError):
            continue


def _precompile(files, codes):
    for path in files:
        if not path or not path.endswith(".py"):
            continue
        try:
            with open(path, "rb") as file:
                codes[os.path.realpath(path)] = compile(file.read(), path, "exec", dont_inherit=True)
        except (OSError, SyntaxError, ValueError):
            continue


def _serve(requests, answers, cpu_s, mem_mb):
    """Answer requests for ever; return only in a child, with the sources it has to load."""
    answers.write(json.dumps({"ready": True}) + "\n")
    answers.flush()
    gc.collect()
    gc.freeze()
    while True:
        line = requests.readline()
        if not line:
            os._exit(0)
        request = json.loads(line)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            pid = os.fork()
            if pid == 0:
                _become_mutant(out, err, cpu_s, mem_mb)
                return request["sources"]
            answer = _wait(pid, out, err)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _become_mutant(out, err, cpu_s, mem_mb):
    os.setsid()
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = open(number, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
    with open("/proc/self/statm", encoding="ascii") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
    limit = used + (mem_mb << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_FSIZE, (OUTPUT_LIMIT, OUTPUT_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
    signal.setitimer(signal.ITIMER_REAL, WALL_S)


def _wait(pid, out, err):
    _, status = os.waitpid(pid, 0)
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    rc = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    texts = []
    for stream in (out, err):
        stream.seek(0)
        texts.append(stream.read(OUTPUT_LIMIT).decode("utf-8", "replace"))
    return {"rc": rc, "out": texts[0], "err": texts[1][-2000:]}


def _run(script):
    """Run the script as `python SCRIPT` would; the exit status."""
    sys.argv[:] = [script]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    rc = 0
    with open(script, "rb") as file:
        text = file.read()
    main_module = type(sys)("__main__")
    main_module.__dict__.update({"__file__": script, "__builtins__": __builtins__})
    sys.modules["__main__"] = main_module
    try:
        exec(compile(text, script, "exec", dont_inherit=True), main_module.__dict__)
    except SystemExit as stop:
        rc = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
        rc = 1
    try:
        sys.stdout.flush()
    except OSError:
        rc = rc or 1
    return rc


if __name__ == "__main__":
    import importlib.util

    main(sys.argv[1:])
