# The frozen plan, and how a job of it becomes a rule's input, output, threads and command.
import json
import os
import shlex
from pathlib import Path

# A remote job parses this file again: it must find the plan of the process that started it.
STANDALONE = "plan" not in config and "UCHIDE_PLAN" not in os.environ
if STANDALONE:
    from uchide.pipeline.standalone import freeze_for_snakemake

    os.environ["UCHIDE_PLAN"] = str(
        freeze_for_snakemake(workflow.basedir, workflow.configfiles, workflow.cores)
    )

with open(config.get("plan") or os.environ["UCHIDE_PLAN"], encoding="utf-8") as file:
    PLAN = json.load(file)
JOBS = PLAN["jobs"]


# What follows a label in a job's name: `.main.r01_s1001.s000` where there are many, then the key.
wildcard_constraints:
    rest=r"(\.[\w.]+|-reuse)?-[0-9a-f]{12}",


def receipt(name):
    return f"{PLAN['run']}/done/{name}"


def receipts(label):
    """The receipts that a job of this label waits for."""
    return lambda wildcards: [
        receipt(name) for name in JOBS[label + wildcards.rest]["inputs"]
    ]


def cores(label):
    return lambda wildcards: JOBS[label + wildcards.rest]["threads"]


def worker(label, program, command):
    """The shell command of a job: its stage's program from the run's copy of the code, its output in a log."""
    fixed = [PLAN["python"], "-P", f"{PLAN['code']}/stages/{program}.py", command]
    quoted = " ".join(
        shlex.quote(word).replace("{", "{{").replace("}", "}}") for word in fixed
    )
    source, run = (
        shlex.quote(word).replace("{", "{{").replace("}", "}}")
        for word in (f"{PLAN['code']}/src", PLAN["run"])
    )
    name = f"{label}{{wildcards.rest}}"
    return (
        f"UCHIDE_PARENT=$PPID PYTHONPATH={source} PYTHONUTF8=1 exec {quoted} "
        f"{run}/jobs/{name}.json > {run}/logs/{name}.log 2>&1"
    )


def finish_standalone():
    from uchide.pipeline.standalone import point_to_results

    point_to_results(workflow.basedir, Path(PLAN["run"]) / "plan.json")
