"""The benchmark: the same durable work done by a bare floor, by peers, and by Leeway, in one interleaved run.

Reads nothing but the two URLs it is given, keeps everything it makes under a prefix of its own run, and
promises ratios: absolute numbers belong to the machine, what is divided inside one run does not.
"""
