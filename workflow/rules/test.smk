# What it needs: prepare. What it makes: one verdict on every instance.


rule test:
    input:
        receipts("test"),
    output:
        touch(receipt("test{rest}")),
    threads: cores("test")
    resources:
        machine="vm",
    shell:
        worker("test", "test", "preflight")
