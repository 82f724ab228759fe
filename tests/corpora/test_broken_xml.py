"""PubMed XML that is not well-formed: the damaged records are named, and all others are read."""

import gzip
import json
import re
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank_plugin.corpora import Document, Problems, broken_xml, documents
from rerank_plugin.files.errors import InputError
from tests.corpora.test_pubmed_xml import article, deletion, read, write, xml
from tests.processes import attempt

DAMAGES = ["\x00", "\x0b", "&", "&nbsp;", "<", "< 5", "<b>", "</b>", "<!--", "\ufffe", "&#0;", "]]>"]


@pytest.mark.parametrize("name", ["a.xml", "a.xml.gz"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_one_damaged_record_costs_itself(tmp_path, damage, name):
    path = tmp_path / name
    write(path, article("1"), article("2", f"x {damage} y"), article("3"), article("4"), doctype="")
    assert read(path) == (["1", "3", "4"], {"malformed XML": 1})
    problems = Problems()
    list(documents(str(path), problems))
    [told] = problems.examples["malformed XML"]
    line, reason = re.fullmatch(re.escape(f"{path}:") + r"(\d+), PMID 2 \((.+)\)", told).groups()
    assert "line" not in reason
    if damage not in ("<b>", "</b>", "<!--"):  # which are noticed where something else ends
        text = gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
        assert int(line) == 1 + text.split(b"x " + damage.encode())[0].count(b"\n")
    with pytest.raises(InputError, match="malformed XML: .*PMID 2"):
        list(documents(str(path), Problems(strict=True)))


SECOND = article("2")
AROUND = (article("3"), article("4"))
CITED = article("3").replace("<PubmedArticle>", "<\x00>")


@pytest.mark.parametrize(
    "text, ids",
    [
        # a damaged tag costs its record, but the citation in a damaged article is whole
        (xml(article("1"), SECOND.replace("</PubmedArticle>", "</Pubmed\x00Article>"), *AROUND), "1 3 4"),
        (xml(article("1"), SECOND.replace("</PubmedArticle>", ""), *AROUND), "1 3 4"),
        (xml(article("1"), SECOND.replace("<PubmedArticle>", "<Pubmed\x00Article>"), *AROUND), "1 2 3 4"),
        (xml(article("1"), SECOND.replace("<MedlineCitation ", "<Medline\x00Citation "), *AROUND), "1 3 4"),
        (xml(article("1"), SECOND.replace("</ArticleTitle>", "</ArticleTitle"), *AROUND), "1 3 4"),
        (xml(article("1"), SECOND.replace("<PMID", "<P\x00MID", 1), *AROUND), "1 3 4"),
        # an end and the next beginning damaged cost no more than the first
        (xml(article("1"), SECOND.replace("</PubmedArticle>", "</PubmedArticle\x00>"), CITED, article("4")), "1 3 4"),
        # files put one behind the other, a file that is one record, and a record in a comment
        (xml(article("1")) + "\n" + xml(article("2")), "1 2"),
        ("<?xml version='1.0'?>" + article("1", "&").strip(), ""),
        (xml(article("1"), f"<!-- withdrawn: {SECOND} -->", article("3", "&"), article("4")), "1 4"),
        # bytes that are no UTF-8
        (xml(article("1"), article("2", "Caf\udce9"), article("3")), "1 3"),
    ],
    ids=map(str, range(11)),
)
def test_one_fault_is_told_once_and_costs_a_record_at_most(tmp_path, text, ids):
    (tmp_path / "a.xml").write_bytes(text.encode(errors="surrogateescape"))
    assert read(tmp_path) == (ids.split(), {"malformed XML": 1})


def test_books_older_sets_and_deletions_around_a_damaged_record(tmp_path):
    book = "<PubmedBookArticle><BookDocument><PMID>{}</PMID><Book><BookTitle>B</BookTitle></Book></BookDocument>"
    book += "</PubmedBookArticle>"
    write(tmp_path / "1.xml", article("1"), article("2"), article("3"))
    write(tmp_path / "2.xml", article("4\x0b"), book.format(5), deletion("1"), "<DeleteDocument/>", article("6"))
    damaged = book.format(7).replace("<PubmedBookA", "<Pubmed\x00BookA")
    write(tmp_path / "3.xml", damaged, deletion("2\x0b"), book.format(8))
    old = "<MedlineCitation><PMID>{}</PMID><Article><ArticleTitle>Old</ArticleTitle></Article></MedlineCitation>"
    broken = old.format(10).replace("Old", "\x01")
    (tmp_path / "4.xml").write_text(f"<MedlineCitationSet>{old.format(9)}{broken}{old.format(11)}</MedlineCitationSet>")
    problems = Problems()
    ids = [document.id for document in documents(str(tmp_path), problems)]
    assert ids == ["2", "3", "5", "6", "8", "9", "11"]  # the deletion of 1 holds, that of 2 cannot be read
    assert problems.counts == {"malformed XML": 4}
    assert "3.xml:3, PMID 7 (the tags around it are damaged)" in problems.summary()[0]


def test_a_file_that_breaks_off_keeps_what_came_before_and_the_other_files(tmp_path):
    bad = tmp_path / "1.xml"
    bad.write_text(f"<PubmedArticleSet>{article('1')}{article('2')}\n{article('3').split('</Journal>')[0]}")
    (tmp_path / "2.xml").write_text(f"<PubmedArticleSet>{article('4')}")
    (tmp_path / "3.xml").write_text(f"<PubmedArticleSet>{article('5')}{article('6 <')}{article('7')}")
    (tmp_path / "4.xml").write_text("")
    write(tmp_path / "5.xml", article("8"))
    problems = Problems()
    assert [document.id for document in documents(str(tmp_path), problems)] == ["1", "2", "4", "5", "7", "8"]
    told = problems.examples["malformed XML"]
    assert [re.sub(r"[:.].*?[(]", " (", place.removeprefix(f"{tmp_path}/")) for place in told] == [
        "1 (Premature end of data in tag Journal)", "2 (Premature end of data in tag PubmedArticleSet line 1)",
        "3 (StartTag: invalid element name)", "3 (the file breaks off after this record)",
        "4 (no element found; no record of this file could be read)"]  # fmt: skip
    assert ", PMID 3 " in told[0] and told[1].startswith(f"{tmp_path}/2.xml:")


def test_a_truncated_gzip_with_a_damaged_record(tmp_path):
    titles = (f"Title {i * 7919}" + "\x0b" * (i == 7) for i in range(1, 4001))
    text = "<PubmedArticleSet>" + "".join(article(i, title) for i, title in enumerate(titles, 1))
    packed = gzip.compress(text.encode())
    (tmp_path / "1.xml.gz").write_bytes(packed[: len(packed) // 2])
    ids, counts = read(tmp_path)
    assert ids == [str(i) for i in range(1, len(ids) + 2) if i != 7] and len(ids) > 1500
    assert counts == {"malformed XML": 1, "damaged gzip file": 1}


def test_entities_and_namespaces_of_the_file_hold_for_every_record(tmp_path):
    """What the DTD declares is told as in a sound file, and a prefix that the root declares is known."""
    path = tmp_path / "a.xml"
    write(path, article("1", "a &y; b"), article("2 \x0b"), article("3", "<m:math><m:mi>x</m:mi></m:math> c"),
          doctype='<!DOCTYPE PubmedArticleSet [<!ENTITY y "<b>EXPANDED</b>">]>')  # fmt: skip
    path.write_text(path.read_text().replace("<PubmedArticleSet>", '<PubmedArticleSet xmlns:m="urn:m">'))
    problems = Problems()
    assert [d.title for d in documents(str(path), problems)] == ["a b", "x c"]
    assert problems.counts == {"malformed XML": 1, "unexpanded entity": 1}


def test_a_damaged_beginning_costs_the_first_record_at_most(tmp_path):
    write(tmp_path / "1.xml", article("1").replace("<PubmedArticle>", "<\x00"), article("2"), article("3", "&nbsp;x"))
    write(tmp_path / "2.xml", article("4"), article("5"), doctype="<!DOCTYPE \x00>")
    ids, counts = read(tmp_path)
    assert ids[-4:] == ["2", "3", "4", "5"] and counts["malformed XML"] == 2


@pytest.mark.parametrize("encoding", ["utf-8-sig", "iso-8859-1", "windows-1252"])
def test_the_declared_encoding_holds_for_every_record(tmp_path, encoding):
    text = f"<?xml version='1.0' encoding='{encoding.removesuffix('-sig')}'?>\n<PubmedArticleSet>"
    text += f"{article('1', 'Über')}{article('2', chr(11))}{article('3', 'Café')}</PubmedArticleSet>"
    (tmp_path / "a.xml").write_bytes(text.encode(encoding))
    problems = Problems()
    assert [(d.id, d.title) for d in documents(str(tmp_path), problems)] == [("1", "Über"), ("3", "Café")]
    assert problems.counts == {"malformed XML": 1}


@pytest.mark.parametrize("encoding", ["utf-16", "x-unknown"])
def test_a_broken_file_in_an_encoding_that_cannot_be_cut_is_named(tmp_path, encoding):
    text = f"<?xml version='1.0' encoding='{encoding}'?><PubmedArticleSet>{article('1')}{article(chr(11))}"
    (tmp_path / "a.xml").write_bytes(text.encode("utf-16" if encoding == "utf-16" else "utf-8"))
    assert read(tmp_path) == ([], {"malformed XML": 1})
    with pytest.raises(InputError, match="; no record of this file could be read[)]"):
        list(documents(str(tmp_path), Problems(strict=True)))


def test_records_that_cross_chunks_and_one_that_is_too_long(tmp_path, monkeypatch):
    parts = [article("1"), f"<!-- {article('2')} -->", article("3", "&"), article("4"), "<PubmedArticle>" + "x" * 9000,
             article("5"), "<!-- <b> " + "y" * 9000, article("6")]  # fmt: skip
    write(tmp_path / "a.xml", *parts)
    monkeypatch.setattr(broken_xml, "LONGEST", 5000)
    for chunk in (1, 7, 64, 1 << 20):
        monkeypatch.setattr(broken_xml, "CHUNK", chunk)
        assert read(tmp_path / "a.xml") == (["1", "4", "5", "6"], {"malformed XML": 2})


def test_a_file_without_a_tag_is_not_kept_in_memory(tmp_path, monkeypatch):
    (tmp_path / "a.xml").write_bytes(b"no XML\n" * 1_000_000)
    monkeypatch.setattr(broken_xml, "LONGEST", 1 << 17)
    monkeypatch.setattr(broken_xml, "CHUNK", 1 << 16)
    tracemalloc.start()
    assert read(tmp_path) == ([], {"malformed XML": 1})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000


def test_memory_does_not_grow_with_a_broken_file(tmp_path, monkeypatch):
    monkeypatch.setattr(broken_xml, "CHUNK", 1 << 16)
    spec = write(tmp_path / "a.xml", *(article(pmid, "<" if pmid == 9 else "T") for pmid in range(1, 4001)))
    tracemalloc.start()
    assert sum(1 for _ in documents(spec, Problems())) == 3999
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000 < (tmp_path / "a.xml").stat().st_size


@given(
    count=st.integers(1, 8),
    damages=st.lists(
        st.tuples(st.integers(0, 7), st.floats(0, 1), st.sampled_from(["\x00", "\x0b", "<", "&", "cut"])),
        min_size=1, max_size=4,
    ),
    chunk=st.sampled_from([16, 257, 1 << 20]),
)  # fmt: skip
def test_what_is_not_touched_is_read_once_and_in_order(tmp_path_factory, count, damages, chunk):
    """Wherever damage lands, it costs no record but the one it lands in, and that one is told or read as it was."""
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
    folder = tmp_path_factory.mktemp("xml")
    write(folder / "a.xml", *records)
    problems = Problems()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(broken_xml, "CHUNK", chunk)
        found = list(documents(str(folder), problems))
    expected = {str(i + 1): Document(str(i + 1), f"Title {i}", "Words.") for i in range(count)}
    ids = [document.id for document in found]
    assert ids == sorted(set(ids), key=int)
    assert set(ids) >= expected.keys() - touched
    assert all(document[:3] == expected[document.id][:3] for document in found)
    lost = len(expected.keys() - set(ids))
    assert lost <= problems.counts.get("malformed XML", 0) <= max(len(damages), lost)
    assert bool(problems.total) == bool(touched)


def test_an_unusable_pmid_is_not_replaced_by_one_that_the_record_mentions(tmp_path):
    write(tmp_path / "a.xml", article("3 &"), article("4"))
    problems = Problems()
    assert [document.id for document in documents(str(tmp_path), problems)] == ["4"]
    assert "PMID" not in problems.examples["malformed XML"][0]


def test_the_command_says_what_was_left_out_and_what_is_incomplete(tmp_path):
    titles = {77: "a \x0b", 90: "an &alpha; blocker"}
    spec = write(tmp_path / "a.xml", *(article(pmid, titles.get(pmid, f"Title {pmid}")) for pmid in range(1, 301)))
    status, out, err = attempt(tmp_path, f"index --corpus {spec} --index index")
    assert status == 0 and ": 299 documents, " in out
    left_out, kept = (line for line in err.splitlines() if spec in line)
    assert re.fullmatch(r"left out: 1 malformed XML: \S+a.xml:\d+, PMID 77 \(PCDATA invalid Char value 11\)", left_out)
    assert kept == f"kept, but without a part: 1 unexpanded entity: {spec}: PMID 90 (&alpha;)"
    described = json.loads((tmp_path / "index" / "index.json").read_text())
    assert described["left_out"] == [left_out.removeprefix("left out: ")]

    status, _, err = attempt(tmp_path, f"index --corpus {spec} --index other --strict")
    assert status == 2 and not (tmp_path / "other").exists()
    assert "malformed XML" in err and "PMID 77" in err
