"""Ways to compress a predecessor, one file each; `method.name = "kd"` is `methods/kd.py`.

A file offers:

    Options                     what a recipe may say under [method]; its `name` is the file's
    defaults(section)           by section, the defaults that this method changes elsewhere
    compress(job, options)      trains in any number of stages, each with its share of the budget: an Outcome
    reads_logits(options)       optional: whether the predecessor's logits are kept for every training example
    IMITATES                    optional: True if it can train on a loss that compares with the predecessor's own answers, as tasks
                                without labels have it: it trains by stages of `job.start()` alone
    KEEPS_HEAD                  optional: True if spans and successors share the head while it trains, which cannot change then
    SMALLER                     optional: True if its successor is smaller even where each stands for one block of its own kind
    NOT_QUANTISED               optional: why its successor cannot be trained for int8 afterwards, as part of a sentence

See `training/job.py` for what a method is given.
"""
