"""`python -m uchide.pipeline.launch PARENT ARGS...` runs Snakemake so that it dies with the process PARENT."""

import runpy
import sys

from uchide.pipeline.procs import die_with_parent

if __name__ == "__main__":
    die_with_parent(int(sys.argv[1]))
    sys.argv = ["snakemake", *sys.argv[2:]]
    runpy.run_module("snakemake", run_name="__main__", alter_sys=True)
