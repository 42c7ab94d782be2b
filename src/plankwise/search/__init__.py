"""The plan that finds itself: the best plan of a library of parts for a speed, a size or a score

After Puzzle (Bercovich et al. 2024, arXiv:2411.19146), which does it for decoders on GPUs. Every candidate, a part in place of a
span, is solved alone in the predecessor and scored by its end effect; its time is measured on this machine. An integer programme
covers all blocks with candidates of least summed effect within a budget. Sums are a guide and not a verdict, so that the best few
plans are then solved and measured whole, beside even spans, dropped layers and random plans. Unlike Puzzle, candidates for spans of
several blocks are there beside those for one, since summed effects of single blocks do not tell what removing several does.
"""
