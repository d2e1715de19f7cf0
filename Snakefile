# The entry. `uchide run` starts Snakemake here on a frozen plan (`--config plan=...`); called plainly, the same planner
# is asked first:  snakemake --profile profiles/local --configfile experiments/demo.yaml
# Only missing jobs are in a plan, and what a rule makes is a receipt in the run folder: Snakemake neither judges nor
# deletes what is in the store.
include: "workflow/rules/common.smk"
include: "workflow/rules/prepare.smk"
include: "workflow/rules/test.smk"
include: "workflow/rules/bench.smk"
include: "workflow/rules/tts.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        [receipt(name) for name in PLAN["targets"]],


onsuccess:
    if STANDALONE:
        finish_standalone()
