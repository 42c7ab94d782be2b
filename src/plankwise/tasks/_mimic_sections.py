"""Cuts a discharge summary to the sections that were known when the patient was admitted.

A heading leads its line and ends in a colon. Inside a section such lines are common too (`HEENT: clear` in an examination), so
what ends a section is a heading that is kept itself, one with a word of LATER in it, or any of several capitalised words after
an empty line. Where that is wrong it mostly cuts too much: what happened in hospital would reveal the answer.
"""

import re

KNOWN_AT_ADMISSION = (
    "chief complaint", "reason for admission",
    "present illness", "history of present illness", "history of the present illness", "hpi",
    "medical history", "past medical history", "pmh", "past medical and surgical history",
    "past medical history/past surgical history", "surgical history", "past surgical history", "psh",
    "medications on admission", "meds on admission", "admission medications", "admission meds",
    "medications prior to admission", "medications at home", "home medications", "home meds",
    "allergies",
    "physical exam", "physical examination", "physical exam on admission", "physical examination on admission",
    "admission physical exam", "admission physical examination", "admission exam", "exam on admission",
    "family history", "social history",
)  # fmt: skip
LATER = re.compile(
    r"\b(?:addendum|assessment|attending|code|completed|condition|consult(?:ation)?s|course|data|death|deceased|"
    r"diagnos[ei]s|dictated|discharged?|disposition|ecg|ekg|expired|facility|findings|follow(?:up)?|hospitalization|"
    r"imaging|impression|instructions|laborator(?:y|ies)|labs|microbiology|plan|postoperative|procedures?|provider|"
    r"radiology|recommendations|results|service|studies|transfer)\b",
    re.IGNORECASE,
)
SMALL_WORDS = {"a", "and", "at", "by", "for", "in", "of", "on", "or", "the", "to", "with"}
COLON_HEADING = re.compile(r"\s*([A-Za-z][^:]{0,59}?)\s*:(?!\d)")  # no heading: the time in "seen at 12:30"
BARE_HEADING = re.compile(r"\s*((?:[A-Z][A-Za-z]*\s+)*(?:Discharge|DISCHARGE)(?:\s+[A-Z][A-Za-z]*)*)\s*")
WORD = re.compile("[A-Za-z]+")


def name_section(heading: str) -> str:
    """How headings are compared: lower case, single spaces, no colon."""
    return " ".join(heading.lower().replace(":", " ").split())


def cut(text: str, kept: frozenset[str]) -> str:
    """The sections whose names are in `kept`, headings included, in their order; empty if there are none.

    Of sections with the same heading the first counts, for a second examination is the one at discharge; a heading
    with nothing below it is left out.
    """
    sections: list[list[str]] = []
    wanted, keeping, before = set(kept), False, ""
    for line in text.splitlines():
        match = COLON_HEADING.match(line) or BARE_HEADING.fullmatch(line)
        if match:
            name = name_section(match[1])
            if name in kept or _ends_section(match[1], after_gap=not before.strip()):
                keeping = name in wanted
                wanted.discard(name)
                sections += [[]] if keeping else []
        if keeping:
            sections[-1].append(line)
        before = line
    whole = ["\n".join(lines).strip() for lines in sections]
    return "\n\n".join(section for section in whole if section.partition(":")[2].strip())


def _ends_section(heading: str, *, after_gap: bool) -> bool:
    if LATER.search(heading):
        return True
    words = WORD.findall(heading)
    return after_gap and len(words) > 1 and all(word[0].isupper() or word in SMALL_WORDS for word in words)
