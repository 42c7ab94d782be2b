import csv
import gzip
import tracemalloc

import pytest
from pydantic import ValidationError

from plankwise.data.split import prepare
from plankwise.errors import DataError
from plankwise.tasks import mimic
from plankwise.tasks._mimic_sections import KNOWN_AT_ADMISSION, cut

ADMISSIONS = (
    "ROW_ID SUBJECT_ID HADM_ID ADMITTIME DISCHTIME DEATHTIME ADMISSION_TYPE ADMISSION_LOCATION DISCHARGE_LOCATION "
    "INSURANCE LANGUAGE RELIGION MARITAL_STATUS ETHNICITY EDREGTIME EDOUTTIME DIAGNOSIS HOSPITAL_EXPIRE_FLAG "
    "HAS_CHARTEVENTS_DATA"
)
NOTES = "ROW_ID SUBJECT_ID HADM_ID CHARTDATE CHARTTIME STORETIME CATEGORY DESCRIPTION CGID ISERROR TEXT"
LETTER = """Admission Date:  [**2101-3-4**]     Discharge Date:  [**2101-3-9**]

Service: MEDICINE

Allergies:
Penicillins, "sulfa"

Attending:[**First Name (un) 1**]
Chief Complaint:
fever, seen after
transfer at 12:30

Major Surgical or Invasive Procedure:
intubation

HISTORY OF PRESENT ILLNESS:  A man of 70.
In the ED: cough.

Brief Hospital Course:
He died.
Medications on Admission:
aspirin

Discharge Disposition:
Expired
"""
SHORT = 'Allergies:\nPenicillins, "sulfa"\n\nChief Complaint:\nfever, seen after\ntransfer at 12:30\n\n'
SHORT += "HISTORY OF PRESENT ILLNESS:  A man of 70.\nIn the ED: cough.\n\nMedications on Admission:\naspirin"
KEPT = frozenset(KNOWN_AT_ADMISSION)


def write(path, columns, rows):
    """Rows as the release writes them: quoted texts, and empty where nothing is given."""
    names = columns.split()
    with (gzip.open if path.suffix == ".gz" else open)(path, "wt", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([row.get(name, "") for name in names] for row in rows)


def admission(number, flag):
    return {"ROW_ID": number, "SUBJECT_ID": 1, "HADM_ID": number, "HOSPITAL_EXPIRE_FLAG": flag}


def note(row, number, text, **changes):
    given = {"ROW_ID": row, "SUBJECT_ID": 1, "HADM_ID": number, "CHARTDATE": "2101-03-09", "TEXT": text}
    return {**given, "CATEGORY": "Discharge summary", "DESCRIPTION": "Report", **changes}


@pytest.fixture
def options(tmp_path):
    def make(admissions, notes, *, ending=".csv", columns=(ADMISSIONS, NOTES), **given):
        write(tmp_path / f"ADMISSIONS{ending}", columns[0], admissions)
        write(tmp_path / f"NOTEEVENTS{ending}", columns[1], notes)
        return mimic.Options(folder=str(tmp_path), **given)

    return make


def complaint(text):
    return f"Chief Complaint: {text}"


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_letters_are_joined_with_the_flag_of_their_admission(options, ending):
    notes = [note(1, 100, LETTER), note(2, 200, complaint("cough")), note(3, "", complaint("of no admission"))]
    source = mimic.read(options([admission(200, 0), admission(100, 1), admission(300, 0)], notes, ending=ending))
    assert source.train.to_pydict() == {"text": [SHORT, complaint("cough")], "label": [1, 0]}
    assert (source.name, source.kind, source.dev) == ("mimic", "classes", {})
    assert source.labels == ("survived", "died")
    assert (source.score, source.metrics) == (("roc_auc",), ("roc_auc", "macro_f1", "accuracy"))


@pytest.mark.parametrize(
    "changes",
    [{"CATEGORY": "Nursing"}, {"DESCRIPTION": "Addendum"}, {"ISERROR": "1"}, {"ISERROR": "1.0"}, {"HADM_ID": 999}],
)
def test_other_notes_do_not_count(options, changes):
    notes = [note(1, 100, complaint("right")), {**note(2, 100, complaint("wrong"), CHARTDATE="2101-04-01"), **changes}]
    assert mimic.read(options([admission(100, 0)], notes)).train["text"].to_pylist() == [complaint("right")]


def test_white_space_around_a_category_and_numbers_with_a_point_are_read(options):
    notes = [note(1, "100.0", complaint("cough"), CATEGORY="Discharge summary  ", ISERROR="")]
    assert mimic.read(options([admission(100, "1")], notes)).train["label"].to_pylist() == [1]


def test_columns_may_be_in_lower_case(options):
    rows = [{key.lower(): value for key, value in row.items()} for row in (admission(1, 1), note(1, 1, complaint("a")))]
    columns = (ADMISSIONS.lower(), NOTES.lower())
    assert mimic.read(options(rows[:1], rows[1:], columns=columns)).train["label"].to_pylist() == [1]


def test_the_last_summary_counts_by_date_then_row(options):
    notes = [
        note(30, 1, complaint("later row"), CHARTDATE="2101-03-01"),
        note(4, 1, complaint("later date"), CHARTDATE="2101-03-02"),
        note(10, 2, complaint("row 10")),
        note(9, 2, complaint("row 9")),
    ]
    letters = mimic.read(options([admission(1, 0), admission(2, 0)], notes)).train["text"].to_pylist()
    assert letters == [complaint("later date"), complaint("row 10")]


def test_a_later_summary_without_a_known_section_does_not_hide_an_earlier_one(options):
    notes = [note(1, 1, complaint("cough")), note(2, 1, "Discharge Condition:\nstable", CHARTDATE="2101-04-01")]
    assert mimic.read(options([admission(1, 0)], notes)).train["text"].to_pylist() == [complaint("cough")]


def test_letters_without_a_known_section_are_dropped_and_counted_as_empty(options):
    admissions = [admission(number, number % 2) for number in range(1, 9)]
    notes = [note(number, number, complaint(f"number {number}")) for number in range(1, 8)]
    given = options(admissions, [*notes, note(8, 8, "Brief Hospital Course:\nquick")], dev_share=0.4)
    prepared = prepare(mimic.read(given), given, seed=0)
    assert prepared.dropped["train"].empty == 1
    assert prepared.train.num_rows + prepared.dev["dev"].num_rows == 7


def test_other_sections_can_be_chosen_in_any_case(options):
    given = options([admission(1, 1)], [note(1, 1, LETTER)], sections=["CHIEF COMPLAINT:"])
    assert mimic.read(given).train["text"].to_pylist() == ["Chief Complaint:\nfever, seen after\ntransfer at 12:30"]


def test_dropped_rows_never_become_python_objects(options):
    rows = [note(row, 1, "x" * 2000, CATEGORY="Nursing") for row in range(2000)]
    given = options([admission(1, 1)], [*rows, note(2000, 1, complaint("cough"))])
    tracemalloc.start()
    source = mimic.read(given)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert source.train.num_rows == 1
    assert peak < 1_000_000  # of the 4 million characters in the file


@pytest.mark.parametrize("block", [512, 16 << 20])
def test_a_file_of_many_blocks_is_read_whole(options, monkeypatch, block):
    monkeypatch.setattr("plankwise.data.pieces.BLOCK_BYTES", block)
    count = 40
    notes = [note(row, row, f"Chief Complaint:\n\ncough {row}\n\nService: X") for row in range(100, 100 + count)]
    source = mimic.read(options([admission(row, row % 2) for row in range(100, 100 + count)], notes))
    assert source.train["text"].to_pylist() == [f"Chief Complaint:\n\ncough {row}" for row in range(100, 100 + count)]
    assert source.train["label"].to_pylist() == [0, 1] * (count // 2)


@pytest.mark.parametrize("flag", ["2", "", "no"])
def test_a_flag_that_is_not_0_or_1_is_refused_with_its_admission(options, flag):
    with pytest.raises(DataError, match=rf"HOSPITAL_EXPIRE_FLAG of HADM_ID 7 is '{flag}', but 0 \(survived\) or 1"):
        mimic.read(options([admission(6, 0), admission(7, flag)], [note(1, 6, LETTER)]))


def test_an_admission_that_is_listed_twice_is_refused(options):
    with pytest.raises(DataError, match=r"ADMISSIONS.csv has a HADM_ID more than once"):
        mimic.read(options([admission(6, 0), admission(6, 1)], [note(1, 6, LETTER)]))


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(DataError, match=r"task.folder is '.*nowhere'; there is no such folder"):
        mimic.read(mimic.Options(folder=str(tmp_path / "nowhere")))


@pytest.mark.parametrize("table", ["ADMISSIONS", "NOTEEVENTS"])
def test_a_missing_file_is_named(options, tmp_path, table):
    given = options([admission(1, 0)], [note(1, 1, LETTER)])
    (tmp_path / f"{table}.csv").unlink()
    with pytest.raises(DataError, match=rf"which has no {table}.csv or {table}.csv.gz"):
        mimic.read(given)


@pytest.mark.parametrize("name", ["HADM_ID", "HOSPITAL_EXPIRE_FLAG"])
def test_a_missing_column_of_the_admissions_is_named(options, name):
    with pytest.raises(DataError, match=rf"ADMISSIONS.csv, column '{name}': there is no such column"):
        mimic.read(options([], [], columns=(ADMISSIONS.replace(name, "OTHER"), NOTES)))


@pytest.mark.parametrize("name", ["ROW_ID", "HADM_ID", "CHARTDATE", "CATEGORY", "DESCRIPTION", "ISERROR", "TEXT"])
def test_a_missing_column_of_the_notes_is_named(options, name):
    with pytest.raises(DataError, match=rf"NOTEEVENTS.csv, column '{name}': there is no such column"):
        mimic.read(options([admission(1, 0)], [], columns=(ADMISSIONS, NOTES.replace(name, "OTHER"))))


@pytest.mark.parametrize("notes", [[], [note(1, 2, LETTER)]])
def test_tables_without_a_common_admission_are_refused(options, notes):
    with pytest.raises(DataError, match=r"NOTEEVENTS.csv has no discharge summary of an admission in ADMISSIONS.csv"):
        mimic.read(options([admission(1, 0)], notes))


def test_sections_that_no_letter_has_are_refused(options):
    with pytest.raises(DataError, match=r"none of the 1 discharge summaries in .* has a section .* \(horoscope\)"):
        mimic.read(options([admission(1, 0)], [note(1, 1, LETTER)], sections=["Horoscope"]))


@pytest.mark.parametrize("sections", [[], ["allergies", " :"]])
def test_empty_headings_are_refused(sections):
    with pytest.raises(ValidationError, match="sections"):
        mimic.Options(folder="x", sections=sections)


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (b"", ", column 'HADM_ID': there is no such column.*; fetch the file again"),
        (b"HADM_ID,HOSPITAL_EXPIRE_FLAG\n1\n", " line 2: 1 columns where the first line has 2"),
        (b"HADM_ID,HOSPITAL_EXPIRE_FLAG\n\xff,0\n", " line 2: byte 0xff .*; fetch the file again"),
    ],
)
def test_a_broken_file_is_named(options, tmp_path, content, wanted):
    given = options([], [note(1, 1, LETTER)])
    (tmp_path / "ADMISSIONS.csv").write_bytes(content)
    with pytest.raises(DataError, match=rf"ADMISSIONS.csv{wanted}"):
        mimic.read(given)


def test_an_archive_that_was_cut_off_is_named(options, tmp_path):
    given = options([admission(1, 0)], [note(1, 1, LETTER)], ending=".csv.gz")
    whole = (tmp_path / "NOTEEVENTS.csv.gz").read_bytes()
    (tmp_path / "NOTEEVENTS.csv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"NOTEEVENTS.csv.gz cannot be read: .*; check the file"):
        mimic.read(given)


def test_there_is_no_test_set():
    with pytest.raises(DataError, match=r"task.name is 'mimic', which has no test set; predict a file"):
        mimic.read_tests(mimic.Options(folder="x"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Physical Exam:\nVS: 98\nHEENT: clear\n\nNeck: supple",
            "Physical Exam:\nVS: 98\nHEENT: clear\n\nNeck: supple",
        ),
        ("Allergies: none\nhospital course by system: died", "Allergies: none"),
        ("Allergies: none\n\nPertinent Numbers of Note:\n12", "Allergies: none"),
        ("Allergies: none\nPertinent Numbers:\n12", "Allergies: none\nPertinent Numbers:\n12"),
        ("HPI: ill\n\nIn the ward he said: no", "HPI: ill\n\nIn the ward he said: no"),
        ("Physical Exam: well\nDISCHARGE EXAM\nVS: 0", "Physical Exam: well"),
        ("Physical Exam: well\nLabs:\n1\nPHYSICAL EXAM: dead", "Physical Exam: well"),
        ("Physical Exam:\nADMISSION PHYSICAL EXAM:\nwell", "ADMISSION PHYSICAL EXAM:\nwell"),
        ("Family  history :\r\nnone\r\nService: X", "Family  history :\nnone"),
        ("Social History:\n\nFamily History:\n \n", ""),
        ("He has allergies: many", ""),
        ("", ""),
    ],
)
def test_a_section_goes_from_its_heading_to_the_next(text, expected):
    assert cut(text, KEPT) == expected
