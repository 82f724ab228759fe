"""Gold annotations: reading PubTator files, and the four scores by hand."""

import json
from pathlib import Path

import pytest

from experiments import annotation_quality
from experiments.__main__ import main
from experiments.annotation_quality import GoldMention, GoldSpan, GoldText, Score, read_pubtator, scores
from rerank_plugin.base.errors import InputError
from rerank_plugin.concepts.annotation import Mention
from rerank_plugin.knowledge.entries import Concept, Relation
from tests.annotated import knowledge_base

CONCEPTS = (
    Concept("D1", "Hypertension", (), ("C",)),
    Concept("D2", "Aspirin", (), ("D",)),
    Concept("D001523", "Mental Disorders", (), ("F",)),
    Concept("D4", "Delirium", (), ("F",)),
    Concept("D5", "Memory", (), ("F",)),
    Concept("D6", "Stroke", (), ("C",)),
)
TITLE = "Aspirin and delirium."
ABSTRACT = "Hypertension or stroke. Memory."
LINES = f"""
1|t|{TITLE}
1|a|{ABSTRACT}
1\t0\t7\tAspirin\tChemical\tMESH:D2
1\t12\t20\tdelirium\tDisease\t D4
1\t22\t44\tHypertension or stroke\tDisease\tD1|D6\thypertension|stroke
1\t22\t34\tHypertension\tDisease\t-1
1\t38\t44\tstroke\tDisease\tOMIM:123
1\tCID\tD2\tD4

2|t|Nothing here.
2|a|
2\t0\t7\tNothing\tDisease\tD1+D999
"""


@pytest.fixture
def gold_file(put):
    return Path(put("gold.pubtator.gz", LINES))


@pytest.fixture(scope="module")
def knowledge(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quality") / "kb"
    return knowledge_base(folder, CONCEPTS, [Relation("D4", "parent", "D001523")])


def test_reading(gold_file):
    first, second = read_pubtator(gold_file)
    assert first.text == f"{TITLE}\n{ABSTRACT}"
    assert [mention.concepts for mention in first.mentions] == [("D2",), ("D4",), ("D1", "D6"), (), ("OMIM:123",)]
    assert first.mentions[0] == (0, 7, "Chemical", ("D2",))
    assert second.mentions[0].concepts == ("D1", "D999")


@pytest.mark.parametrize(
    "line, message",
    [
        ("1\t0\t7\tAspirins\tChemical\tD2", "has 'Aspirin'"),
        ("1\t7\t0\tAspirin\tChemical\tD2", "two whole numbers"),
        ("1\tx\t7\tAspirin\tChemical\tD2", "two whole numbers"),
        ("9\t0\t7\tAspirin\tChemical\tD2", "before its title"),
        ("1\t0\t7", "expected ID"),
        ("words", "expected ID"),
    ],
)
def test_invalid_lines(put, line, message):
    with pytest.raises(InputError, match=f"gold.txt:2.*{message}"):
        read_pubtator(Path(put("gold.txt", f"1|t|{TITLE}\n{line}\n")))


def test_a_file_without_a_text(put):
    with pytest.raises(InputError, match="no text"):
        read_pubtator(Path(put("gold.txt", "\n")))


def test_gold_spans_and_left_out_mentions(gold_file, knowledge):
    gold = annotation_quality.gold(read_pubtator(gold_file), knowledge)
    assert gold.spans == [
        [
            GoldSpan(0, 7, "Chemical", frozenset({1})),
            GoldSpan(12, 20, "Disease", frozenset({3})),
            GoldSpan(22, 44, "Disease", frozenset({0, 5})),
        ],
        [GoldSpan(0, 7, "Disease", frozenset({0}))],
    ]
    assert gold.left_out == {"without a concept": 1, "of OMIM": 1}


def test_gold_of_another_vocabulary(knowledge):
    text = GoldText("1", "a", (GoldMention(0, 1, "Disease", ("C0027051",)),))
    with pytest.raises(InputError, match="has none of the 1 gold concepts"):
        annotation_quality.gold([text], knowledge)


@pytest.mark.parametrize("kind, rows", [("Disease", [0, 2, 3, 5]), ("Chemical", [1]), ("all", [0, 1, 2, 3, 5])])
def test_kinds(knowledge, kind, rows):
    assert annotation_quality.of_kind(knowledge, kind).nonzero()[0].tolist() == rows


def test_scores_by_hand(knowledge):
    spans = [[GoldSpan(0, 7, "Chemical", frozenset({1})), GoldSpan(22, 44, "Disease", frozenset({0, 5}))]]
    found = [
        [
            Mention(0, 7, (2, 1), (1.0, 0.9)),  # the second candidate is right
            Mention(22, 34, (0,), (1.0,)),  # a part of the span
            Mention(38, 44, (5,), (1.0,)),  # another part
            Mention(46, 52, (4,), (1.0,)),  # not gold
        ]
    ]
    everything = scores(found, spans, None)
    assert everything["mention"] == Score(0, 4, 0, 2)
    assert everything["candidates"] == Score(1, 4, 1, 2)
    assert everything["overlap"] == Score(2, 4, 1, 2)
    assert everything["document"] == Score(2, 4, 2, 3)
    of_kind = scores(found, spans, annotation_quality.of_kind(knowledge, "all"))
    assert of_kind["overlap"] == Score(2, 3, 1, 2)
    described = Score(1, 2, 3, 4).described()  # F1: 2 * 1/2 * 3/4 / (1/2 + 3/4)
    assert described == dict(right=1, found=2, hit=3, gold=4, precision=0.5, recall=0.75, f1=pytest.approx(0.6))
    assert Score(0, 0, 0, 0).described()["f1"] == 0


def test_evaluate(gold_file, knowledge, capsys):
    command = ["annotation", "--knowledge", str(knowledge.folder), "--gold", str(gold_file), "--thresholds", "0.8"]
    main([*command, "--format", "json"])
    printed = json.loads(capsys.readouterr().out)
    assert (printed["texts"], printed["mentions"]) == (2, 4)
    assert printed["left_out"] == {"without a concept": 1, "of OMIM": 1}
    assert len(printed["rows"]) == 2 * 4
    chemical = printed["rows"][0]
    assert (chemical["setting"], chemical["gold"], chemical["found"]) == ("exact", "Chemical", "of its kind")
    assert chemical["scores"]["mention"] == dict(right=1, found=1, hit=1, gold=1, precision=1, recall=1, f1=1)
    everything = printed["rows"][3]["scores"]
    # aspirin and delirium of 5 found (with both parts of the composite, and Memory), of 4 gold
    assert [everything["mention"][name] for name in ("right", "found", "hit", "gold")] == [2, 5, 2, 4]
    assert [everything["document"][name] for name in ("right", "found", "hit", "gold")] == [4, 5, 4, 5]

    main(command)
    table = capsys.readouterr().out
    assert table.startswith("2 texts, 4 gold mentions; left out: 1 of OMIM, 1 without a concept\n")
    assert len(table.splitlines()) == 2 + 1 + 2 * 4
