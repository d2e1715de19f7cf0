# What it needs: bench. What it makes: per arm, the cross-check matrix, picks, and the verdicts of the picks.


rule tts_matrix:
    input:
        receipts("tts-matrix"),
    output:
        touch(receipt("tts-matrix{rest}")),
    threads: cores("tts-matrix")
    resources:
        machine="vm",
    shell:
        worker("tts-matrix", "tts", "matrix")


rule tts_pick:
    input:
        receipts("tts-pick"),
    output:
        touch(receipt("tts-pick{rest}")),
    threads: cores("tts-pick")
    shell:
        worker("tts-pick", "tts", "pick")


rule tts_grade:
    input:
        receipts("tts-grade"),
    output:
        touch(receipt("tts-grade{rest}")),
    threads: cores("tts-grade")
    shell:
        worker("tts-grade", "tts", "grade")


rule tts:
    input:
        receipts("tts"),
    output:
        touch(receipt("tts{rest}")),
    wildcard_constraints:
        rest="-[0-9a-f]{12}",
    threads: cores("tts")
    shell:
        worker("tts", "tts", "collect")
