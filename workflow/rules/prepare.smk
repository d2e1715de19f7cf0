# What it needs: the dataset. What it makes: trees, environments (in the user's cache), hidden tests.


rule prepare_public:
    input:
        receipts("prepare-public"),
    output:
        touch(receipt("prepare-public{rest}")),
    threads: cores("prepare-public")
    resources:
        machine="vm",
    shell:
        worker("prepare-public", "prepare", "public")


rule prepare_hidden:
    input:
        receipts("prepare-hidden"),
    output:
        touch(receipt("prepare-hidden{rest}")),
    threads: cores("prepare-hidden")
    resources:
        machine="vm",
    shell:
        worker("prepare-hidden", "prepare", "hidden")


rule prepare:
    input:
        receipts("prepare"),
    output:
        touch(receipt("prepare{rest}")),
    wildcard_constraints:
        rest="-[0-9a-f]{12}",
    threads: cores("prepare")
    shell:
        worker("prepare", "prepare", "collect")


rule prepare_reuse:
    input:
        receipts("prepare"),
    output:
        touch(receipt("prepare{rest}")),
    wildcard_constraints:
        rest="-reuse-[0-9a-f]{12}",
    threads: cores("prepare")
    shell:
        worker("prepare", "prepare", "reuse")
