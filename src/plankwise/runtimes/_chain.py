"""A model with early exits at work as a chain of graphs, one for each block: between two graphs texts leave.

    first graph     the model's inputs          →  logits, state, given_0, …
    each other      state, given_0, …           →  logits, state
    the last        state, given_0, …           →  logits

`given_i` are the tensors beside the state that every block is given: the mask, mostly, as the family makes it.
"""

import inspect

import numpy as np

from plankwise.models.patience import count_same


def run_chain(graphs: list, batch: dict, exits: dict) -> list[np.ndarray]:
    """Logits (B, C), and after which graph each text left, (B,), from 1; later graphs run on the texts that are left."""
    logits, *states = graphs[0](batch)
    given = dict(zip(exits["given"], states[1:], strict=True))
    answers, left, counts = logits.copy(), np.arange(len(logits)), 0
    blocks = np.full(len(left), len(graphs))
    for block, graph in enumerate(graphs[1:], 2):
        before = logits
        logits, *states = graph({"state": states[0], **given})
        answers[left] = logits
        counts = count_same(counts, logits, before, exits["tolerance"])
        stays = counts < exits["patience"]
        blocks[left[~stays]] = block
        if not stays.any():
            break
        if not stays.all():
            left, counts, logits, states = left[stays], counts[stays], logits[stays], [one[stays] for one in states]
            given = {name: value[stays] if exits["given"][name] else value for name, value in given.items()}
    return [answers, blocks]


def chain_source() -> str:
    """The text of `run_chain` and what it calls, for a script that has numpy as np alone."""
    return "\n\n\n".join(inspect.getsource(one).strip() for one in (count_same, run_chain))
