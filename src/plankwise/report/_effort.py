"""What a run chose to do with its time, and why: its grade of effort, how successors were solved, what was searched"""

from plankwise.report._html import Column, paragraph, table
from plankwise.report.text import count, fixed, is_number, number


def effort(record: dict) -> str:
    """Empty for a run that was told everything and solved nothing."""
    found = record.get("effort") or {}
    return _grade(found) + _solved(record.get("solving") or {}) + _plans(found.get("plans") or []) + _trials(found)


def effort_remark(record: dict) -> str:
    """The choice in one sentence; empty if there was none."""
    found = record.get("effort") or {}
    within = f", within {found['within']}" if found.get("within") else ""
    return f"effort: {found['grade']}{within}: {found['why']}" if found.get("why") else ""


def _grade(found: dict) -> str:
    if not found:
        return ""
    told = f"{found['grade'].capitalize()}: {found.get('why') or 'as the recipe says'}."
    steps = found.get("steps")
    if steps:
        told += f" {steps['fitting']} steps fit into {found['within']}; {steps['taken']} were taken."
    return paragraph(told)


def _solved(found: dict) -> str:
    if not found.get("slots"):
        return ""
    columns = [
        Column("slot", "slot"),
        Column("weights from", "start"),
        Column("maps solved", "maps", count),
        Column("end effect", "effect", fixed(4)),
        Column("first token counts", "first", fixed(1)),
    ]
    rows = [{**slot, "first": (slot.get("weights") or {}).get("first")} for slot in found["slots"]]
    told = (
        f"Solved on {found.get('tokens', '')} tokens. The end effect is how far the answers are from the predecessor's once this "
        f"slot and those before it are replaced; that of copied blocks, all replaced, is {number(found.get('effect_before'))}."
    )
    title = "Successors solved by least squares, before any training"
    shown = table(title, columns, rows, key="solving", sorts=False) + paragraph(told, "note")
    return shown + (paragraph(_head(found["head"]), "note") if found.get("head") else "")


def _head(found: dict) -> str:
    if found.get("strength") is None:
        return f"The head stayed as it was: none that was solved on {found['examples']} labels was better on those left out."
    return (
        f"The head was solved on {found['examples']} labels, the penalty's strength {number(found['strength'])} chosen by "
        f"cross-validation: score on examples left out {number(found['score_before'])} before, {number(found['score'])} after."
    )


def _plans(plans: list[dict]) -> str:
    if len(plans) < 2:
        return ""
    columns = [Column("spans", "spans"), Column("end effect", "effect", fixed(4))]
    rows = [{**plan, "spans": _shape(plan)} for plan in plans]
    return table("Plans compared, solved and untrained", columns, rows, key="plans")


def _shape(plan: dict) -> str:
    if plan.get("part"):
        return f"each block, {plan['part']}" + (", tapered" if plan.get("cut") == "tapered" else "")
    return "as asked for" if plan["spans"] is None else str(plan["spans"])


def _trials(found: dict) -> str:
    trials = [trial for trial in found.get("trials") or [] if is_number(trial.get("score"))]
    columns = [
        Column("method", "method"),
        Column("learning rate", "rate", number),
        Column("steps", "steps", count),
        Column("seed", "seed", count),
        Column("score on the examples that choose", "score", fixed(4)),
    ]
    return table("Settings tried, by successive halving", columns, trials, key="trials") if trials else ""
