"""PubMed XML that is not well-formed: the damaged records are named, and all others are read."""

import gzip
import json
import re
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import Document, Problems, documents, xml_records
from tests.corpora.pubmed import BOOK, ENTITY, OLD, article, deletion, read, xml

DAMAGES = ["\x00", "\x0b", "&", "&nbsp;", "<", "< 5", "<b>", "</b>", "<!--", "\ufffe", "&#0;", "]]>"]
BROKEN = "malformed XML"


def ids(docs):
    return " ".join(document.id for document in docs)


@pytest.mark.parametrize("damage", DAMAGES)
def test_one_damaged_record_costs_itself(put, tmp_path, damage):
    text = xml(article("1"), article("2", f"x {damage} y"), article("3"), article("4"), doctype="")
    spec, problems = put("a.xml", text), Problems()
    assert ids(documents(spec, problems)) == "1 3 4"
    assert problems.counts == {BROKEN: 1}
    line, reason = re.fullmatch(re.escape(spec) + r":(\d+), PMID 2 \((.+)\)", problems.examples[BROKEN][0]).groups()
    assert "line" not in reason
    if damage not in ("<b>", "</b>", "<!--"):  # which the parser notices at a later end tag
        assert int(line) == 1 + text.split(f"x {damage}")[0].count("\n")
    with pytest.raises(InputError, match="malformed XML: .*PMID 2"):
        list(documents(spec, Problems(strict=True)))


FIRST, SECOND, *AROUND = map(article, "1234")
CITED = article("3").replace("<PubmedArticle>", "<\x00>")
SET = "<PubmedArticleSet>"


def damaged(tag, changed):
    return [xml(FIRST, SECOND.replace(tag, changed, 1), *AROUND)]


@pytest.mark.parametrize(
    "texts, expected, places",
    [
        # a damaged tag costs its record, but the citation in a damaged article is complete
        (damaged("</PubmedArticle>", "</Pubmed\x00Article>"), "1 3 4", ["1.xml, PMID 2 "]),
        (damaged("</PubmedArticle>", ""), "1 3 4", ["1.xml, PMID 2 "]),
        (damaged("<PubmedArticle>", "<Pubmed\x00Article>"), "1 2 3 4", ["1.xml "]),
        (damaged("<MedlineCitation ", "<Medline\x00Citation "), "1 3 4", ["1.xml, PMID 2 "]),
        (damaged("</ArticleTitle>", "</ArticleTitle"), "1 3 4", ["1.xml, PMID 2 "]),
        (damaged("<PMID", "<P\x00MID"), "1 3 4", ["1.xml "]),
        # an end and the next beginning damaged cost no more than the first
        ([xml(FIRST, SECOND.replace("</PubmedArticle>", "</PubmedArticle\x00>"), CITED, article("4"))], "1 3 4",
         ["1.xml, PMID 2 "]),
        # a damaged beginning
        ([xml(CITED, article("4"))], "3 4", ["1.xml "]),
        ([xml(*AROUND, doctype="<!DOCTYPE \x00>")], "3 4", ["1.xml "]),
        # concatenated files, a file that is one record, and a record in a comment
        ([xml(SECOND) + "\n" + xml(article("3"))], "2 3", ["1.xml "]),
        (["<?xml version='1.0'?>" + article("1", "&").strip()], "", ["1.xml, PMID 1 "]),
        ([xml(FIRST, f"<!-- withdrawn: {SECOND} -->", article("3", "&"), article("4"))], "1 4", ["1.xml, PMID 3 "]),
        # bytes that are not UTF-8
        ([xml(FIRST, article("2", "Caf\udce9"), *AROUND)], "1 3 4", ["1.xml, PMID 2 "]),
        # an unusable PMID is not replaced by one that the record mentions
        ([xml(article("2 &"), *AROUND)], "3 4", ["1.xml "]),
        # books, older sets and deletions: that of 1 holds, that of 2 cannot be read
        ([xml(article("1"), article("2"), article("3")),
          xml(article("4\x0b"), BOOK.format(5), deletion("1"), "<DeleteDocument/>", article("6")),
          xml(BOOK.format(7).replace("<PubmedBookA", "<Pubmed\x00BookA"), deletion("2\x0b"), BOOK.format(8)),
          f"<MedlineCitationSet>{OLD.format(9)}{OLD.format(chr(1))}{OLD.format(11)}</MedlineCitationSet>"],
         "2 3 5 6 8 9 11",
         ["2.xml, PMID 4 ", "3.xml, PMID 7 (the tags around it are damaged)", "3.xml, PMID 2 ", "4.xml "]),
        # a file that breaks off keeps what came before
        ([f"{SET}{article('1')}{article('2')}\n{article('3').split('</Journal>')[0]}",
          f"{SET}{article('4')}", f"{SET}{article('5')}{article('6 <')}{article('7')}", "", xml(article("8"))],
         "1 2 4 5 7 8",
         ["1.xml, PMID 3 (Premature end of data in tag Journal)", "2.xml (Premature end of data in tag Pubmed",
          "3.xml, PMID 6 (StartTag: invalid element name)", "3.xml (the file breaks off after this record)",
          "4.xml (no element found; no record of this file could be read)"]),
    ],
    ids=map(str, range(16)),
)  # fmt: skip
def test_a_fault_is_reported_once_and_costs_a_record_at_most(put, tmp_path, texts, expected, places):
    for number, text in enumerate(texts, 1):
        put(f"{number}.xml", text)
    docs, places_by_kind = read(tmp_path)
    assert ids(docs) == expected
    assert [place[: len(begin)] for begin, place in zip(places, places_by_kind[BROKEN], strict=True)] == places


@pytest.mark.parametrize("before", ["\n\n", " ", "\ufeff\n"])
def test_blank_lines_before_the_declaration_cost_no_record(put, before):
    problems = Problems()
    spec = put("a.xml", before + xml(article("1"), article("2")))
    assert [document.id for document in documents(spec, problems)] == ["1", "2"]
    assert list(problems.counts) == ["malformed XML"]


def test_damage_between_records_is_reported_with_its_line(put):
    spec, problems = put("a.xml", xml("\n", BOOK.format(7).replace("<PubmedBookA", "<Pubmed\x00BookA"))), Problems()
    assert list(documents(spec, problems)) == []
    assert problems.examples[BROKEN] == [f"{spec}:4, PMID 7 (the tags around it are damaged)"]


@pytest.mark.parametrize("faulty", [[], ["7"]])
def test_a_truncated_gzip_keeps_what_came_before_and_the_other_files(put, tmp_path, faulty):
    pmids = [str(pmid) for pmid in range(1, 4001)]
    titles = (f"Title {int(pmid) * 7919}" + "\x0b" * (pmid in faulty) for pmid in pmids)
    packed = gzip.compress(xml(*map(article, pmids, titles)).encode())
    (tmp_path / "1.xml.gz").write_bytes(packed[: len(packed) // 2])
    put("2.xml.gz", xml(article("9001")))
    docs, places_by_kind = read(tmp_path)
    *before, last = (document.id for document in docs)
    assert last == "9001" and 1500 < len(before) < 2500
    assert before == [pmid for pmid in pmids if pmid not in faulty][: len(before)]
    assert [*places_by_kind] == [*[BROKEN] * len(faulty), "damaged gzip file"]


def test_entities_and_namespaces_of_the_file_hold_for_every_record(put, tmp_path):
    """Entities of the DTD are reported as in a well-formed file, and a prefix that the root declares is known."""
    formula = "<m:math><m:mi>x</m:mi></m:math> c"
    text = xml(article("1", "a &y; b"), article("2 \x0b"), article("3", formula), doctype=ENTITY)
    put("a.xml", text.replace("<PubmedArticleSet>", '<PubmedArticleSet xmlns:m="urn:m">'))
    docs, places_by_kind = read(tmp_path)
    assert [document.title for document in docs] == ["a b", "x c"]
    assert list(places_by_kind) == [BROKEN, "unexpanded entity"]


@pytest.mark.parametrize(
    "encoding, titles",
    [
        ("utf-8-sig", ["Über", "Café"]),
        ("iso-8859-1", ["Über", "Café"]),
        ("latin-1", ["Über", "Café"]),
        ("windows-1252", ["Über", "Café"]),
        ("utf-16", []),  # cannot be cut
        ("x-unknown", []),
    ],
)
def test_the_declared_encoding_holds_for_every_record(tmp_path, encoding, titles):
    text = f"<?xml version='1.0' encoding='{encoding.removesuffix('-sig')}'?>\n<PubmedArticleSet>"
    text += f"{article('1', 'Über')}{article('2', chr(11))}{article('3', 'Café')}</PubmedArticleSet>"
    (tmp_path / "a.xml").write_bytes(text.encode("utf-8" if encoding == "x-unknown" else encoding))
    docs, places_by_kind = read(tmp_path)
    assert [document.title for document in docs] == titles
    assert len(places_by_kind[BROKEN]) == 1 and places_by_kind[BROKEN][0].endswith(
        "; no record of this file could be read)"
    ) == (not docs)


def test_records_that_cross_chunks_and_one_that_is_too_long(put, tmp_path, monkeypatch):
    parts = [article("1"), f"<!-- {article('2')} -->", article("3", "&"), article("4"), "<PubmedArticle>" + "x" * 9000,
             article("5"), "<!-- <b> " + "y" * 9000, article("6")]  # fmt: skip
    put("a.xml", xml(*parts))
    monkeypatch.setattr(xml_records, "LONGEST", 5000)
    for chunk in (1, 7, 64, 1 << 20):
        monkeypatch.setattr(xml_records, "CHUNK", chunk)
        docs, places_by_kind = read(tmp_path)
        assert ids(docs) == "1 4 5 6" and len(places_by_kind[BROKEN]) == 2


@pytest.mark.parametrize(
    "text, count",
    [
        ("no XML\n" * 1_000_000, 0),
        (xml(*(article(pmid, "<" if pmid == 9 else "T") for pmid in range(1, 2501))), 2499),
    ],
    ids=["without a tag", "with one damaged record"],
)
def test_memory_does_not_grow_with_a_broken_file(put, monkeypatch, text, count):
    monkeypatch.setattr(xml_records, "LONGEST", 1 << 17)
    monkeypatch.setattr(xml_records, "CHUNK", 1 << 16)
    spec, problems = put("a.xml", text), Problems()
    tracemalloc.start()
    assert sum(1 for _ in documents(spec, problems)) == count
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert problems.counts == {BROKEN: 1} and peak < 2_000_000 < len(text)


@given(
    count=st.integers(1, 8),
    damages=st.lists(
        st.tuples(st.integers(0, 7), st.floats(0, 1), st.sampled_from(["\x00", "\x0b", "<", "&", "cut"])),
        min_size=1, max_size=4,
    ),
    chunk=st.sampled_from([16, 257, 1 << 20]),
)  # fmt: skip
def test_undamaged_records_are_read_once_and_in_order(tmp_path_factory, count, damages, chunk):
    """Damage anywhere costs only its own record, which is reported or read unchanged."""
    records = [article(str(i + 1), f"Title {i}").strip() for i in range(count)]
    touched = set()
    for number, place, damage in damages:
        if number < count:
            text = records[number]
            at = int(place * (len(text) - 2)) + 1  # within the record
            if damage == "cut":  # a tag without its end
                end = text.find(">", at)
                records[number] = text[:end] + text[end + 1 :]
            else:
                records[number] = text[:at] + damage + text[at:]
            touched.add(str(number + 1))
    path, problems = tmp_path_factory.mktemp("xml") / "a.xml", Problems()
    path.write_text(xml(*records), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(xml_records, "CHUNK", chunk)
        docs = list(documents(str(path), problems))
    expected = {str(i + 1): Document(str(i + 1), f"Title {i}", "Words.") for i in range(count)}
    read = [document.id for document in docs]
    assert read == sorted(set(read), key=int)
    assert set(read) >= expected.keys() - touched
    assert all(document[:3] == expected[document.id][:3] for document in docs)
    lost = len(expected.keys() - set(read))
    assert lost <= problems.counts.get(BROKEN, 0) <= max(len(damages), lost)
    assert bool(problems.total) == bool(touched)


def test_the_command_reports_left_out_and_incomplete_records(put, tmp_path, index_command, caplog):
    spec = put("a.xml", xml(article("7", "a \x0b"), article("8", "an &alpha; blocker"), article("9")))
    status, out, _ = index_command("--corpus", spec, "--index", tmp_path / "index")
    assert status == 0 and ": 2 documents, " in out
    left_out, kept = (line for line in caplog.messages if spec in line)
    assert re.fullmatch(r"left out: 1 malformed XML: \S+a.xml:\d+, PMID 7 \(PCDATA invalid Char value 11\)", left_out)
    assert kept == f"kept, but without a part: 1 unexpanded entity: {spec}: PMID 8 (&alpha;)"
    described = json.loads((tmp_path / "index" / "index.json").read_text())
    assert described["left_out"] == [left_out.removeprefix("left out: ")]

    status, _, err = index_command("--corpus", spec, "--index", tmp_path / "strict", "--strict")
    assert status == 2 and not (tmp_path / "strict").exists()
    assert "malformed XML" in err and "PMID 7" in err
