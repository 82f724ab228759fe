"""Strategies pasted from PubMed's history, its CSV file and Ovid, with what stands around their queries."""

import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.strategies.lines import lines
from rerank_plugin.strategies.ovid import translated
from rerank_plugin.strategies.syntax import Reader, is_strategy

PAGE = (
    "#3\t...\t>\tSearch: #1 AND #2\t1,234\t05:12:33\n"
    "#2\t...\t>\tSearch: b[ti] Filters: Review\t12\t05:11:02\n"
    "#1\tSearch: c\t9\t05:10:00"
)
CSV = '''Search number,Query,Filters,Search Details,Results,Time
3,#1 AND #2,,"(""c"")",1234,05:12:33
2,"""b d""[ti] OR e",Review,"x",12,05:11:02
1,c,,y,99,05:10:00
'''
COPIED = '3\t#1 AND #2\t\t"x"[mh]\t1,234\t05:12:33\n2\t"b d"[ti]\tReview\tx\t12\t05:11:02\n1\tc\t\ty\t99\t05:10:00'
DOUBTFUL = "the numbers at the ends of all lines are read as numbers of results, as that of 'b 332'"
TYPES = 'a[ti] AND (("Clinical Trial, Phase III"[pt] OR "Review"[pt]) AND "English"[la])'


@pytest.mark.parametrize(
    "text, read_as",
    [
        ("Search: a Filters: Clinical Trial, from 2010 - 2020", 'a AND ("Clinical Trial"[pt] AND 2010:2020[dp])'),
        ("Search: a Filters: Abstract", "a AND hasabstract[sb]"),
        ('#3 Search: "a b" Sort by: Most Recent', '"a b"'),
        ("Search (a[ti]) Filters: Clinical Trial, Phase III, Review, English Sort by: Author", TYPES),
        ("a Filters: in the last 5 years, Exclude preprints", None),
        ('("a" AND "b") 1,234', '"a" AND "b"'),
        ('("a" AND "b")\t1234\t05:12:33', '"a" AND "b"'),
        ("a AND 1,234", "a AND 1,234"),
        (PAGE, 'c AND (b[ti] AND "Review"[pt])'),  # the newest line is first
        (CSV, 'c AND (("b d"[ti] OR e) AND "Review"[pt])'),
        ("1. a[ti] 12345\n2. b 332\n3. 1 OR 2 1200", "a[ti] OR b"),
        ("1. a[ti] (12345)\n2. b\n3. 1 OR 2", "a[ti] OR b"),
        ("1. a[ti] 2019\n2. b 2018", "b AND 2018"),  # years
        ("1. omega 3\n2. fish* AND vitamin b 12", "fish* AND vitamin AND b AND 12"),  # words
        (
            "#3 Search: #1 AND #2 7 04:11:02\n#2 Search: b d 2019 8 04:10:40\n#1 Search: a[ti] 9 04:10:02",
            "a[ti] AND (b AND d AND 2019)",
        ),
        ("#1 Search: a[ti] 2\n#2 Search: b 12\n#3 Search: #1 AND #2", "a[ti] AND (b AND 12)"),
        ("#2 Search: #1 AND b 3\n#1 Search: a 5", "a AND b"),
        (COPIED, 'c AND ("b d"[ti] AND "Review"[pt])'),
    ],
)
def test_what_is_pasted_from_a_history(text, read_as):
    reader = Reader()
    last_years = Reader().read('a AND ("last 5 years"[dp] NOT preprint[pt])')
    assert str(reader.read(text)) == (read_as or str(last_years))
    assert reader.notes == ([DOUBTFUL] if "b 332" in text else [])
    assert is_strategy(text) and is_strategy("(a or b).tw.")


def test_ages_and_sexes_are_headings():
    read = str(Reader().read("a Filters: Female, Infant: 1-23 months, Adult: 19+ years"))
    assert read == 'a AND (female[mh:noexp] AND ("infant"[mh:noexp] OR "adult"[mh:noexp]))'


def test_what_is_left_out_or_of_another_language_is_told():
    reader = Reader()
    assert str(reader.read("Search: a Filters: Free full text")) == "a"
    assert reader.notes == ["the filter 'Free full text' is not indexed, and is left out"]
    with pytest.raises(InputError, match=r"before the word .* \(line 1: 'exp Pain/' of Ovid's language: write .*\)$"):
        Reader().read("1. exp Pain/zz\n2. a AND *b\n3. 1 OR 2")
    many = Reader()
    many.read("\n".join(f"{number}. x or y and pain{number}.tw." for number in range(1, 7)))
    assert len(many.notes) == 4 and many.notes[-1] == "3 more lines are in Ovid's language"


@pytest.mark.parametrize(
    "line, read_as",
    [
        ("exp Asthma/", '"Asthma"[mh]'),
        ("*Wounds and Injuries/", '"Wounds and Injuries"[majr:noexp]'),
        ("exp animals/ not humans/", '"animals"[mh] NOT "humans"[mh:noexp]'),
        ("(heart failure or wheez$).ti,ab.", '"heart failure"[tiab] OR wheez*[tiab]'),
        ("(asthma or exp Asthma/) and child*.ti,kf.", '(asthma[tw] OR "Asthma"[mh]) AND (child*[ti] OR child*[ot])'),
        ("(sleep adj3 quality).tw.", '"sleep quality"[tiab:~2]'),
        ("(a adj b).ti.", '"a b"[ti]'),
        ("(a adj1 b).ti.", '"a b"[ti:~0]'),  # in any order
        ("(a adj2 (b or c)).ti,ab.", '"a b"[tiab:~1] OR "a c"[tiab:~1]'),
        ("((a or b) adj2 c).tw.", '"a c"[tiab:~1] OR "b c"[tiab:~1]'),
        ("(child* adj3 care).tw.", "child*[tiab] AND care[tiab]"),
        ("exp *Stroke/", '"Stroke"[majr]'),
        ("exp Stroke/ep [Epidemiology]", '"Stroke/epidemiology"[mh]'),
        ("Stroke/ep, ge or a.tw.", '("Stroke/epidemiology"[mh:noexp] OR "Stroke/genetics"[mh:noexp]) OR a[tiab]'),
        ("stroke.mp. [mp=title, abstract]", "stroke[tw]"),
        ("(epidemiology or adverse effects).fs.", 'epidemiology[sh:noexp] OR "adverse effects"[sh:noexp]'),
        ("drug therapy.fs. or ae.fs.", '"drug therapy"[sh:noexp] OR ae[sh:noexp]'),
        ('"2019".yr. and lancet.jn.', '"2019"[dp] AND lancet[ta]'),
        ("(2023* or 20240105).dt,ez,da.", "(2023[crdt] OR 2023[edat]) OR (2024/01/05[crdt] OR 2024/01/05[edat])"),
        ("smith j.au. and review.pt.", '"smith j"[au] AND review[pt]'),
        ("3 and (4 or 5)", "3 AND (4 OR 5)"),
        ("or/1-3,5", "1 OR 2 OR 3 OR 5"),
        ("remove duplicates from 9", "9"),
        ('limit 4 to (english language and yr="2010 -Current")', "4 AND english[la] AND 2010:present[dp]"),
        ("limit 4 to (abstracts and full text)", None),
        *(
            (line, None)
            for line in (
                "wom?n.tw.", "a or b and c", "(child* adj care).tw.", "((a and b) adj2 c).tw.", "limit to english",
                "Asthma/zz", "(a", "asthma.hw.", "soon.dt.",
                "(a adj2 b adj2 c).tw.", "(a adj2 b c).tw.", "a or adj2 b", "a[ti] or b.tw.", "or/9-1",
            )
        ),
    ],
)  # fmt: skip
def test_a_line_of_ovid(line, read_as):
    assert translated(line, lambda note: None) == read_as


def test_a_strategy_of_ovid_and_lines_of_numbers():
    reader = Reader()
    lines = (
        "exp Asthma/ 12", "asthma.ti,ab. (9)", "1 or 2  20", "limit 3 to full text 7", "limit 3 to humans 9",
        "5 and ca$.tw. 3",
    )  # fmt: skip
    ovid = "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1))
    assert str(reader.read(ovid)) == '("Asthma"[mh:noexp] OR asthma[tiab]) AND humans[mh:noexp] AND ca*[tiab]'
    assert [note[:22] for note in reader.notes] == [
        "Ovid's language is rea",
        "line 4: 'limit 3 to' o",
        "[mh] finds the heading",
    ]
    loose = Reader()
    loose.read("\n".join(f"{number}. a adj2 b{number}$.tw." for number in range(1, 4)))
    assert "'a adj2 b1*', is read as AND, which finds more; 2 more lines, too" in loose.notes[0]
    assert str(Reader().read("#1 a[ti]\n#2 b\n#3 1 or 2")) == "a[ti] OR b"
    assert str(Reader().read("7     (a or b).ti. (1,234)")) == "a[ti] OR b[ti]"


TABLE = "Search\tDetails\tQuery\tResults\tTime\n#2\t>\tSearch: #1 AND b\t12\t05:10:10\n#1\t>\tSearch: a\t9\t05:10:09"
FILE = "Search number,Query,Sort By,Filters,Search Details,Results,Time\n1,a,Most Recent,English,x,9,05:10:10\n"


@pytest.mark.parametrize(
    ("text", "read_as"),
    [
        ("#1 a[ti]\n#2 90000001, 90000002,90000005\n#3 #1 NOT #2",
         "a[ti] NOT (90000001[pmid] OR 90000002[pmid] OR 90000005[pmid])"),
        ("a[ti] OR PMC9900013 10.1000/x;1", "a[ti] OR (PMC9900013[pmc] OR 10.1000/x;1[doi])"),
        (TABLE, "a AND b"),
        ("#1 Search (a)\n#2\tAdd\tSearch (#1) AND b\t12\t05:10:10", "a AND b"),
        ("#1 Search (a)[ti] 1203\n#2 Search b 98\n#3 Search #1 AND #2 12", "a[ti] AND b"),
        (FILE, 'a AND "English"[la]'),
        ("1. ab*.ti.\n2. b.ti.\n3. 1 or 2 45", "ab*[ti] OR b[ti]"),
        ("1. ab*.ti.\n2. b.ti.\n3. or/1-2 1203", "ab*[ti] OR b[ti]"),
        ('#1 "a"[ti] 12\n#2 b\n#3 #1 OR #2 1', '"a"[ti] OR b'),
    ],
)  # fmt: skip
def test_what_librarians_pasted(text, read_as):
    assert str(Reader().read(text)) == read_as


def test_numbers_of_results_with_a_comma_beside_smaller_ones():
    found = lines('#1 "a b"[ti] 1,234\n#2 c*[ti] 12\n#3 #1 OR #2 1,240', pytest.fail)
    assert [line.query for line in found] == ['"a b"[ti]', "c*[ti]", "#1 OR #2"]


@pytest.mark.parametrize(
    "text, read_as, notes",
    [
        ("1. (*Stroke/ and *Asthma/)\n2. 1", '"Stroke"[majr:noexp] AND "Asthma"[majr:noexp]', 1),
        ("1. Stroke/ (65949)\n2. 1 and 1 (31940)", '"Stroke"[mh:noexp] AND "Stroke"[mh:noexp]', 1),
        ("Asthma/ or Stroke/", '"Asthma"[mh:noexp] OR "Stroke"[mh:noexp]', 1),
        ("1 a/\n2 b.ti.\n3 c\n4 1 or 2 and 3", '("a"[mh:noexp] OR b[ti]) AND c[tw]', 1),
        ("1. b.ti.\n2. c.ti.\n3. 1 or 2\n*****", "b[ti] OR c[ti]", 1),
        ("#1 a[ti]\nExposure:\n#2 b\n\nOutcomes and so on\n#3 1 OR 2\nSearched on 12 Nov 2026\nby us", "a[ti] OR b", 4),
        ("1. a[ti]\n2. b[ti]" + "".join(f"\nAs {n}" for n in range(9)), "b[ti]", 4),
        ("1 a[ti]\n2 1 AND b[ti]\nSearched on 12 Nov 2026", "a[ti] AND b[ti]", 1),
        ("1. a[ti] OR\nLong covid\n2. (c\nD)\n3. 1 AND 2", "(a[ti] OR (Long AND covid)) AND (c AND D)", 0),
        ("(a[tiab]) AND (soy*[tiab])  (22 results)", "a[tiab] AND soy*[tiab]", 0),
    ],
)
def test_headings_alone_and_what_stands_below_a_line(text, read_as, notes):
    reader = Reader()
    assert is_strategy(text) and str(reader.read(text)) == read_as
    assert len(reader.notes) == notes, reader.notes


def test_a_wildcard_of_ovid_is_named():
    reader = Reader()
    reader.read("1. (soy$1 or soya).ti,ab.\n2. soya.ti.")
    assert any("'soy$1'" in note and "soy*" in note for note in reader.notes)
