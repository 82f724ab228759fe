"""Indexes of mirrors: equal to what a plain reader makes of the files one after the other, whatever was interrupted."""

import gzip
import os
import re
import shutil
from dataclasses import asdict, replace

import pytest
from lxml import etree

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.filters import Filter
from rerank_plugin.concepts.headings import Headings
from rerank_plugin.corpora import Problems, pubmed_xml
from rerank_plugin.encoding.updates import add_documents
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.knowledge.entries import Concept, Relation
from rerank_plugin.pubmed import applying
from rerank_plugin.pubmed.applying import applied, bring_up_to_date, next_missing, pending
from rerank_plugin.pubmed.distribution import SourceFile
from rerank_plugin.pubmed.mirror import Mirror, file_md5
from rerank_plugin.pubmed.selection import Selection, with_narrower
from rerank_plugin.sample.pubmed import write_distribution
from tests.annotated import knowledge_base
from tests.pubmed.conftest import PLAN

FIRST = SourceFile(26, 1, "baseline")
RECORD = re.compile(r"<PubmedArticle>.*?</PubmedArticle>|<DeleteCitation>.*?</DeleteCitation>", re.DOTALL)


def held(folder):
    """The title, version and number of headings of each document of an index."""
    index = Index(folder)
    reader, rows = index.open_lucene(), index.forward.live_rows
    stored = list(index.stored_documents(reader, rows))
    reader.close()
    assert index.forward.ids.take(rows) == [document.id for document in stored]
    return {one.id: (one.title, one.metadata["pmid_version"], len(one.metadata.get("mesh", ()))) for one in stored}


def plainly(*paths):
    """What files hold one after the other, by a reader of its own."""
    found = {}
    for path in paths:
        for text in RECORD.findall(gzip.decompress(path.read_bytes()).decode()):
            try:
                record = etree.fromstring(text)
            except etree.XMLSyntaxError:
                continue
            if record.tag == "DeleteCitation":
                for pmid in record:
                    if pmid.text in found and found[pmid.text][1] == int(pmid.get("Version")):
                        del found[pmid.text]
            elif (pmid := record.find("MedlineCitation/PMID")) is not None:
                version = int(pmid.get("Version"))
                if version >= found.get(pmid.text, ("", 0))[1]:
                    headings = len(record.findall(".//DescriptorName"))
                    found[pmid.text] = "".join(record.find(".//ArticleTitle").itertext()), version, headings
    return found


def same(index, plain):
    """Equal but for titles of articles in other languages, which are read without brackets, and signs of powers."""
    assert index.keys() == plain.keys()
    for id, (title, version, headings) in plain.items():
        assert index[id][1:] == (version, headings)
        assert index[id][0].replace("^", "") == title or title[0] == "["


def apply_all(mirror, folder, **settings):
    return [report.file.number for report in bring_up_to_date(Mirror(mirror), folder, threads=1, **settings)]


@pytest.fixture(scope="module")
def built(distribution, tmp_path_factory):
    """An index of the baseline and the first update."""
    folder = tmp_path_factory.mktemp("built") / "index"
    mirror = shutil.copytree(distribution, folder.parent / "mirror", copy_function=os.link)
    for number in (5, 6):
        (mirror / f"updatefiles/pubmed26n000{number}.xml.gz").unlink()
    assert apply_all(mirror, folder) == [1, 2, 3, 4]
    return folder


@pytest.fixture
def folder(built, tmp_path):
    return shutil.copytree(built, tmp_path / "index")


def test_files_are_applied_in_order_and_twice_changes_nothing(distribution, folder):
    files = [Mirror(distribution).path(file) for file in Mirror(distribution).files()]
    same(held(folder), plainly(*files[:4]))
    assert apply_all(distribution, folder) == [5, 6]
    same(held(folder), plainly(*files))
    commit, record = Index(folder).commit, applied(folder)
    assert (record.release, record.last, record.replaces) == (26, 6, None)
    assert apply_all(distribution, folder) == [] and Index(folder).commit == commit


def test_a_file_that_is_applied_again_changes_nothing(distribution, folder):
    before, record = held(folder), asdict(replace(applied(folder), last=3))
    documents = pubmed_xml.documents([distribution / "updatefiles/pubmed26n0004.xml.gz"], Problems())
    report = add_documents(folder, documents, "again", Problems(), threads=1, applied=record)
    assert (report.added, report.deleted) == (0, 0) and report.unchanged > 0
    assert held(folder) == before and applied(folder).last == 3


@pytest.mark.parametrize("step", [1, 3, 9])
def test_an_interruption_loses_nothing(distribution, folder, monkeypatch, step):
    """Before a rename, or a link to a file of the commit before; afterwards the run goes on with the same file."""
    count, real = iter(range(1, 10**6)), {name: getattr(os, name) for name in ("replace", "link", "truncate")}

    def interrupted(name):
        def call(*arguments, **more):
            if next(count) == step:
                raise KeyboardInterrupt
            return real[name](*arguments, **more)

        return call

    for name in real:
        monkeypatch.setattr(os, name, interrupted(name))
    try:
        done = apply_all(distribution, folder)
    except KeyboardInterrupt:
        done = None
    monkeypatch.undo()
    last = applied(folder).last
    assert last in (4, 5) if done is None else last == 6
    assert apply_all(distribution, folder) == list(range(last + 1, 7))
    same(held(folder), plainly(*map(Mirror(distribution).path, Mirror(distribution).files())))


def test_a_new_index_after_an_interruption(distribution, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(applying, "build_single", interrupted)
    with pytest.raises(KeyboardInterrupt):
        apply_all(distribution, tmp_path / "index")
    assert applied(tmp_path / "index") is None
    monkeypatch.undo()
    (report, *_) = bring_up_to_date(Mirror(distribution), tmp_path / "index", threads=1)
    same(held(tmp_path / "index"), plainly(*map(Mirror(distribution).path, Mirror(distribution).files())))
    assert report.file == FIRST and report.update.documents == len(plainly(Mirror(distribution).path(FIRST)))


def test_the_next_baseline_removes_what_it_lacks(distribution, folder, tmp_path):
    apply_all(distribution, folder)
    mirror = tmp_path / "27"
    write_distribution(mirror, replace(PLAN, release=27))
    files = Mirror(mirror).files()
    gone = sorted(map(int, held(folder)))[10:13]
    for file in files[:-3]:  # these articles are in no file
        path = Mirror(mirror).path(file)
        text = gzip.decompress(path.read_bytes()).decode()
        for pmid in gone:
            text = re.sub(rf"<PubmedArticle>\s.*\s<PMID.*>{pmid}</PMID>(.|\n)*?</PubmedArticle>", "", text)
        path.write_bytes(gzip.compress(text.encode()))
        reseal(path)
    reports = list(bring_up_to_date(Mirror(mirror), folder, threads=1))
    withdrawn = [len(report.update.withdrawn) for report in reports]
    assert [number > 0 for number in withdrawn[: len(files) - 2]] == [False] * (len(files) - 3) + [True]
    same(held(folder), plainly(*map(Mirror(mirror).path, files)))
    assert (applied(folder).release, applied(folder).replaces) == (27, None)


def reseal(path):
    path.with_name(f"{path.name}.md5").write_text(f"MD5({path.name})= {file_md5(path)}\n")


def publish(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    for one in (path, path.with_name(f"{path.name}.md5")):
        one.unlink(missing_ok=True)  # it may be a link
    path.write_bytes(gzip.compress(text.encode()))
    reseal(path)


def test_a_file_that_was_published_anew_is_applied_again(distribution, folder, tmp_path):
    """With the later ones: a record that both have stays that of the later."""
    mirror = shutil.copytree(distribution, tmp_path / "mirror", copy_function=os.link)
    assert apply_all(mirror, folder) == [5, 6]
    before, paths = held(folder), list(map(Mirror(mirror).path, Mirror(mirror).files()))
    text = gzip.decompress(paths[4].read_bytes()).decode()
    publish(paths[4], text.replace("<ArticleTitle>", "<ArticleTitle>Anew: "))
    mended = plainly(*paths)
    changed = [id for id, (title, *_) in mended.items() if title.startswith("Anew: ")]
    assert 0 < len(changed) < text.count("<ArticleTitle>")  # others are in the last file, too
    (report,) = bring_up_to_date(Mirror(mirror), folder, threads=1)
    assert (report.since.number, report.file.number, report.update.added) == (5, 6, len(changed))
    same(held(folder), mended)
    assert apply_all(mirror, folder) == [] and applied(folder).last == 6
    publish(paths[4], text)
    paths[5].unlink()
    with pytest.raises(InputError, match="lacks pubmed26n0006.xml.gz, which has to be applied again"):
        apply_all(mirror, folder)
    os.link(distribution / paths[5].relative_to(mirror), paths[5])
    assert apply_all(mirror, folder) == [6] and held(folder) == before


def test_an_older_version_does_not_come_after_one_that_was_not_selected(tmp_path):
    mirror, filter = tmp_path / "mirror", Filter.parse(["language:eng"])
    article = (
        '<PubmedArticle><MedlineCitation><PMID Version="{}">{}</PMID><Article><ArticleTitle>A title</ArticleTitle>'
        "<Language>{}</Language></Article></MedlineCitation></PubmedArticle>"
    )
    files = [(1, 7, "eng"), (2, 9, "ger"), (1, 9, "eng"), (3, 9, "eng")]
    for number, record in enumerate(files, 1):
        path = f"{'baseline' if number == 1 else 'updatefiles'}/pubmed26n{number:04}.xml.gz"
        publish(mirror / path, f"<PubmedArticleSet>{article.format(*record)}</PubmedArticleSet>")
        apply_all(mirror, tmp_path / "index", filter=filter)
        versions = {id: version for id, (_, version, _) in held(tmp_path / "index").items()}
        assert versions == ({"7": 1, "9": 3} if number == 4 else {"7": 1})


def test_a_filter_selects_what_a_search_with_it_finds(distribution, folder, tmp_path):
    index = Index(folder)
    reader, rows = index.open_lucene(), index.forward.live_rows
    stored = list(index.stored_documents(reader, rows))
    reader.close()
    for texts in FILTERS:
        filter = Filter.parse(texts.split(", "))
        selected = list(map(Selection(filter).selects, (document.metadata for document in stored)))
        assert selected == index.fitting(filter)[rows].tolist() and True in selected, texts


FILTERS = (
    "year:2000-2015", "year:-1999, year:2020-", "type:Review, language:eng, language:German", "retracted:no",
    "mesh:Humans, NOT type:Letter", "AND mesh:Humans, AND mesh:Female", "entered:1990-05..2010-06", "NOT retracted:yes",
)  # fmt: skip


def test_an_index_of_selected_records(distribution, tmp_path):
    """Also of those that are selected by a revision, or no longer."""
    files = list(map(Mirror(distribution).path, Mirror(distribution).files()))
    wanted = Filter.parse(["language:eng", "NOT mesh:Humans"])
    assert apply_all(distribution, tmp_path / "index", filter=wanted) == [1, 2, 3, 4, 5, 6]
    records, selects = pubmed_xml.documents(files, Problems()), Selection(wanted).selects
    assert sorted(held(tmp_path / "index")) == sorted(one.id for one in records if selects(one.metadata))
    assert apply_all(distribution, tmp_path / "index", filter=wanted) == []
    with pytest.raises(InputError, match="another filter"):
        apply_all(distribution, tmp_path / "index", filter=Filter.parse(["year:1999"]))


def test_headings_stand_for_those_below_them(tmp_path):
    names = {"D1": ("Heart Diseases", ("Cardiac Diseases",)), "D2": ("Arrhythmias",), "D3": ("Flutter",)}
    concepts = [Concept(id, *names_of) for id, names_of in names.items()]
    relations = [Relation("D2", "parent", "D1"), Relation("D3", "parent", "D2")]
    headings = Headings(knowledge_base(tmp_path / "kb", concepts, relations))
    filter = with_narrower(Filter.parse(["mesh:Cardiac Diseases", "NOT major:Arrhythmias", "year:2020"]), headings)
    assert filter.values == (("mesh", ("heart diseases", "arrhythmias", "flutter")), ("year", ("2020",)))
    assert filter.excluded == (("major", ("arrhythmias", "flutter")),)
    with pytest.raises(InputError, match="no heading or entry term 'cancer'"):
        with_narrower(Filter.parse(["mesh:Cancer"]), headings)


def numbered(*numbers):
    return sorted(SourceFile(*(*number, "baseline")[:3]) for number in numbers)


@pytest.mark.parametrize(
    "numbers, before, following, missing",
    [
        ([(26, 1), (26, 2)], None, [(26, 1), (26, 2)], None),
        ([(26, 1), (26, 3)], None, [(26, 1)], "pubmed26n0002.xml.gz"),
        ([(26, 2)], None, [], "pubmed26n0001.xml.gz"),
        ([(26, 1), (26, 2), (26, 3)], (26, 2), [(26, 3)], None),
        ([(26, 4)], (26, 2), [], "pubmed26n0003.xml.gz"),
        ([(26, 3), (27, 1), (27, 2)], (26, 2), [(26, 3), (27, 1), (27, 2)], None),
        ([(26, 4), (27, 1)], (26, 2), [(27, 1)], None),
        ([(26, 1), (27, 1)], None, [(27, 1)], None),
        ([(27, 2)], (26, 2), [], "pubmed27n0001.xml.gz"),
        ([(27, 1, "updatefiles")], (26, 2), [], "pubmed27n0001.xml.gz"),  # a baseline begins a release
        ([(27, 1), (27, 1, "updatefiles"), (27, 2)], (26, 2), [(27, 1), (27, 2)], None),
        ([(26, 1), (26, 2)], (26, 2), [], None),
    ],
)
def test_the_order_of_files(numbers, before, following, missing):
    record = before and applying.Applied(*before, "")
    assert [file[:2] for file in pending(numbered(*numbers), record)] == following
    assert next_missing(numbered(*numbers), record) == missing


def test_damage_is_an_error_before_anything_changes(distribution, folder, tmp_path):
    mirror, commit = shutil.copytree(distribution, tmp_path / "mirror"), Index(folder).commit
    path = mirror / "updatefiles/pubmed26n0005.xml.gz"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match="n0005.xml.gz is damaged"):
        apply_all(mirror, folder)
    assert Index(folder).commit == commit


def test_an_index_of_other_documents(distribution, index_folder):
    with pytest.raises(InputError, match="was not built from a mirror"):
        apply_all(distribution, index_folder)


def test_pmids_without_trees(distribution, monkeypatch):
    path = Mirror(distribution).path(FIRST)
    parsed = [record.findtext("MedlineCitation/PMID") for record in etree.parse(gzip.open(path)).getroot()]
    for block in (1 << 23, 1000, 7):
        monkeypatch.setattr(pubmed_xml, "PMIDS_BLOCK", block)
        assert pubmed_xml.pmids(path).tolist() == list(map(int, parsed))
