"""Dense, hybrid and whole-collection first stages as a user asks for them, on the bundled sample."""

import json
import os
import shutil

import pytest

from rerank_plugin import bench, fuse, index, search, train
from rerank_plugin import options as commandline
from rerank_plugin.files.runs import read_run
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.ranking.recommended import recommended
from rerank_plugin.retrieval.register import known_forms
from tests.test_startup import imported

TRAIN = (
    "--model ktrel-w --set heads=1 feed_forward=20 --index {0}/index --words {0}/words --train sample:train "
    "--validation sample:dev --epochs 1 --measures AP"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, sample_index, sample_words):
    """An index of the sample, a KTRel of words that saw it once, and its encodings."""
    folder = tmp_path_factory.mktemp("hybrid")
    shutil.copytree(sample_index, folder / "index")
    shutil.copytree(sample_words, folder / "words")
    train.main(f"{TRAIN.format(folder)} --depth 50 --output {folder}/ktrel".split())
    index.main(f"--encode {folder}/ktrel --index {folder}/index".split())
    (folder / "q.tsv").write_text("q1\taspirin heart attack\nq2\tzyzzyva\nq3\tbreast cancer risk in women\n")
    return folder


def searched(folder, name, *arguments):
    always = f"--index {folder}/index --queries {folder}/q.tsv --output {folder}/{name} --overwrite"
    search.main([*always.split(), *arguments])
    return read_run(folder / name)


def test_dense_retrieval_is_the_reranker_over_all_documents(folder):
    dense = searched(folder, "dense.run", "--first-stage", f"dense:{folder}/ktrel", "--depth", "30")
    whole = searched(folder, "whole.run", "--first-stage", "all", "--reranker", f"{folder}/ktrel", "--depth", "30")
    assert dense.keys() == {"q1", "q3"}  # the model knows no word of q2: it keeps the first stage's order, or nothing
    for query in dense:
        assert dense[query].doc_ids == whole[query].doc_ids and len(dense[query].doc_ids) == 30
        assert dense[query].scores.tolist() == whole[query].scores.tolist()
    assert whole["q2"].doc_ids == searched(folder, "all.run", "--first-stage", "all", "--depth", "30")["q2"].doc_ids
    tags = {name: (folder / name).read_text().split()[5] for name in ("dense.run", "all.run")}
    assert tags == {"dense.run": "dense", "all.run": "all"}


def test_feedback_is_an_option_of_the_search(folder, capsys):
    """It moves the query, and with a weight of 0 it does not."""
    dense = ["--first-stage", f"dense:{folder}/ktrel", "--depth", "200"]
    plain = searched(folder, "plain.run", *dense)
    moved = searched(folder, "moved.run", *dense, "--dense-feedback", "5", "--dense-feedback-weight", "3")
    same = searched(folder, "same.run", *dense, "--dense-feedback", "5", "--dense-feedback-weight", "0")
    assert moved.keys() == plain.keys() and moved["q1"].doc_ids != plain["q1"].doc_ids
    assert [same[query].doc_ids for query in plain] == [plain[query].doc_ids for query in plain]
    with pytest.raises(SystemExit):
        searched(folder, "wrong.run", *dense, "--dense-feedback", "-1")
    assert "argument --dense-feedback: must be at least 0" in capsys.readouterr().err


def test_all_documents_are_read_by_a_reranker_whatever_the_depth(folder):
    """By decreasing id where all score the same; the depth cuts what is written."""
    top = searched(folder, "all1.run", "--first-stage", "all", "--depth", "1")
    few = searched(folder, "all5.run", "--first-stage", "all", "--depth", "5", "--reranker", "docid")
    all_documents = searched(folder, "all9.run", "--first-stage", "all", "--depth", "10000", "--reranker", "docid")
    assert [len(run["q2"].doc_ids) for run in (top, few, all_documents)] == [1, 5, 1500]
    assert all_documents["q2"].doc_ids[:5] == few["q2"].doc_ids and all_documents["q2"].doc_ids[:1] == top["q2"].doc_ids
    assert all_documents["q2"].doc_ids == sorted(all_documents["q2"].doc_ids, reverse=True)


@pytest.mark.parametrize("fusion", [["--fusion", "rrf"], ["--fusion", "linear", "--fusion-weight", "0.3"]])
def test_a_hybrid_first_stage_is_the_fusion_of_the_runs(folder, fusion):
    dense = ["--first-stage", f"dense:{folder}/ktrel", "--depth", "200"]
    lucene = ["--first-stage", "bm25+rm3", "--k1", "1.2", "--depth", "200"]
    searched(folder, "one.run", *lucene)
    searched(folder, "two.run", *dense)
    hybrid = searched(
        folder, "hybrid.run", *lucene[:-1], "50", "--fuse", f"dense:{folder}/ktrel", "--fusion-depth", "200", *fusion
    )
    weights = ["--weights", fusion[-1]] if "--fusion-weight" in fusion else []
    runs = [str(folder / "one.run"), str(folder / "two.run")]
    output = ["--output-depth", "50", "--output", str(folder / "fused.run"), "--overwrite"]
    fuse.main([*runs, "--method", fusion[1], *weights, *output])
    fused = read_run(folder / "fused.run")
    for query in hybrid:
        # Runs are written without ties, so the two may differ where one list had some
        assert len(set(hybrid[query].doc_ids[:10]) & set(fused[query].doc_ids[:10])) >= 9
        assert hybrid[query].scores[:10] == pytest.approx(fused[query].scores[:10], rel=1e-4)
    assert (folder / "hybrid.run").read_text().split()[5] == "fused"


def test_a_hybrid_is_re_ranked_and_gone_on_with(folder):
    hybrid = ["--first-stage", "bm25", "--fuse", "qld", "--fuse", f"dense:{folder}/ktrel", "--fusion-depth", "40"]
    reranked = searched(folder, "again.run", *hybrid, "--reranker", f"{folder}/ktrel", "--depth", "60")
    candidates = searched(folder, "candidates.run", *hybrid, "--depth", "60")
    assert all(sorted(reranked[query].doc_ids) == sorted(candidates[query].doc_ids) for query in candidates)
    text = (folder / "again.run").read_text()
    os.rename(folder / "again.run", folder / "again.run.part")
    with pytest.raises(commandline.InputError, match="begun with other settings: .*fusion_depth was 40 and is 41"):
        (folder / "again.run.part.journal").write_text(journal(folder, hybrid))
        searched(folder, "again.run", *hybrid[:-1], "41", "--reranker", f"{folder}/ktrel", "--depth", "60", "--resume")
    searched(folder, "again.run", *hybrid, "--reranker", f"{folder}/ktrel", "--depth", "60", "--resume")
    assert (folder / "again.run").read_text() == text


def journal(folder, hybrid):
    """The first line of the journal of the search for again.run."""
    options = search.arguments().parse_args(
        ["--index", str(folder / "index"), "--queries", str(folder / "q.tsv"), "--output", "x", *hybrid,
         "--reranker", f"{folder}/ktrel", "--depth", "60"]
    )  # fmt: skip
    settings = search._settings(options, commandline.first_stage_config(options), Index(folder / "index"))
    return json.dumps({"overwrite": False, "settings": {**settings, "tag": "ktrel"}}, default=str) + "\n"


def test_training_takes_such_first_stages(folder):
    for name, stage in [("whole", "all"), ("mixed", f"bm25 --fuse dense:{folder}/ktrel")]:
        train.main(f"{TRAIN.format(folder)} --depth 20 --output {folder}/{name} --first-stage {stage}".split())
    described = json.loads((folder / "mixed" / "config.json").read_text())
    assert "fusion_depth" in json.dumps(described)


def test_lists_are_made_and_read_as_told(folder, capsys):
    encode = f"--encode {folder}/ktrel --index {folder}/index --overwrite"
    try:
        dense = ["--first-stage", f"dense:{folder}/ktrel", "--depth", "30"]
        before = searched(folder, "one.run", *dense)
        capsys.readouterr()
        index.main(f"{encode} --nlist 10 --nprobe 9".split())
        assert "a search of 9 of 10 lists finds " in capsys.readouterr().out
        flat = searched(folder, "flat.run", *dense, "--dense-index", "flat")
        few = searched(folder, "few.run", *dense, "--nprobe", "1")
        for query in ("q1", "q3"):
            assert flat[query].doc_ids == before[query].doc_ids
            assert 0 < len(set(few[query].doc_ids) & set(flat[query].doc_ids)) <= 30
        assert any(few[query].doc_ids != flat[query].doc_ids for query in few)
    finally:
        index.main(encode.split())


def test_dense_retrieval_needs_no_java(folder):
    """In a Python of its own: here the tests' Java may run already."""
    arguments = ["--index", str(folder / "index"), "--query", "aspirin heart attack", "--show", "2"]
    code = f"from rerank_plugin.search import main; main({[*arguments, '--first-stage', f'dense:{folder}/ktrel']!r})"
    assert "jnius" not in imported(code)


@pytest.mark.parametrize(
    "arguments, said",
    [
        ("--first-stage dense", f"unknown first stage 'dense'; known: {', '.join(known_forms())}"),
        ("--first-stage dense:", "dense:CHECKPOINT"),
        ("--first-stage dense:nowhere", "nowhere"),
        ("--fuse all", "--fuse takes searches"),
        ("--fuse judged:sample:test", "--fuse takes searches"),
        ("--fuse qld --fusion sum", "unknown fusion 'sum'"),
        ("--fuse qld --fusion-weight 1 2 3", "3 fusion weights for 2 ranked lists"),
        ("--fusion-weight 1", "name the others with --fuse"),
        ("--fuse qld --run x --reranker docid", "--fuse is for searches"),
        ("--fuse qld --first-stage judged:sample:test", "--fuse takes searches"),
    ],
)
def test_what_is_refused(folder, refused, arguments, said):
    assert said in refused(f"search --index {folder}/index --queries {folder}/q.tsv --output no.run {arguments}")


def test_judged_queries_are_for_encodings(refused):
    assert "--judged is for encodings" in refused("index --corpus sample --index other --judged sample:train")


def test_benchmarks_take_first_stages_too():
    assert bench.arguments().parse_args(["--fuse", "qld"]).fuse == ["qld"]


def test_judged_queries_as_a_first_stage(folder, capsys):
    """They need no encoding of the documents again, and alone find what was relevant for similar queries."""
    stage = ["--first-stage", f"neighbours:{folder}/ktrel"]
    with pytest.raises(commandline.InputError, match="holds no judged queries.*--judged QJ"):
        searched(folder, "judged.run", *stage)
    encode = ["--encode", f"{folder}/ktrel", "--index", f"{folder}/index"]
    capsys.readouterr()
    index.main([*encode, "--judged", "sample:train", "--judged", "sample:dev"])
    output = capsys.readouterr().out
    assert "judged queries" in output and "documents," not in output
    judged = searched(folder, "judged.run", *stage, "--depth", "40")
    assert judged.keys() == {"q1", "q3"} and len(judged["q1"].doc_ids) == 40
    nearest = searched(folder, "nearest.run", *stage, "--neighbours", "1", "--neighbour-power", "2")
    assert 0 < len(nearest["q1"].doc_ids) < 40
    fused = searched(
        folder, "three.run", "--first-stage", "bm25", "--fuse", f"dense:{folder}/ktrel", "--fuse", stage[1]
    )
    assert "q2" not in fused and {*judged["q1"].doc_ids} <= {*fused["q1"].doc_ids}
    with pytest.raises(commandline.InputError, match="exists already.*overwrite"):
        index.main([*encode, "--judged", "sample:train"])


def test_the_recommended_ranking(folder, caplog):
    """It is that of a pipeline that is named, by whether the index is encoded; it warns of nothing."""
    assert recommended(folder / "index") == ("bm25", "delta")
    named = searched(folder, "named.run", "--reranker", "delta", "--depth", "30")
    assert scores(searched(folder, "recommended.run", "--recommended", "--depth", "30")) == scores(named)
    index.main(f"--encode ktrel --index {folder}/index".split())
    named = searched(folder, "named.run", "--first-stage", "hybrid", "--reranker", "delta+0.5", "--depth", "30")
    assert scores(searched(folder, "recommended.run", "--recommended", "--depth", "30")) == scores(named)
    assert "trained on those" not in caplog.text
    for other in (("--reranker", "delta"), ("--first-stage", "bm25")):
        with pytest.raises(SystemExit):
            searched(folder, "refused.run", "--recommended", *other)


def scores(run):
    return {query: dict(zip(ranked.doc_ids, ranked.scores.tolist())) for query, ranked in run.items()}
