# What it needs: all the others. What it makes: numbers, tables and a page.


rule report:
    input:
        receipts("report"),
    output:
        touch(receipt("report{rest}")),
    threads: cores("report")
    shell:
        worker("report", "report", "build")
