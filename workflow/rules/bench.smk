# What it needs: prepare and test. What it makes: per arm, run and shard, candidates and their verdicts.


rule bench_generate:
    input:
        receipts("bench-generate"),
    output:
        touch(receipt("bench-generate{rest}")),
    threads: cores("bench-generate")
    resources:
        machine="vm",
    shell:
        worker("bench-generate", "bench", "generate")


rule bench_grade:
    input:
        receipts("bench-grade"),
    output:
        touch(receipt("bench-grade{rest}")),
    threads: cores("bench-grade")
    resources:
        machine="vm",
    shell:
        worker("bench-grade", "bench", "grade")


rule bench:
    input:
        receipts("bench"),
    output:
        touch(receipt("bench{rest}")),
    wildcard_constraints:
        rest="-[0-9a-f]{12}",
    threads: cores("bench")
    shell:
        worker("bench", "bench", "collect")


rule bench_reuse:
    input:
        receipts("bench"),
    output:
        touch(receipt("bench{rest}")),
    wildcard_constraints:
        rest="-reuse-[0-9a-f]{12}",
    threads: cores("bench")
    shell:
        worker("bench", "bench", "reuse")
