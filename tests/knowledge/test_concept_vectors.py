"""Concept vectors: the folder, and the command that writes it."""

import json
from dataclasses import asdict

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from rerank_plugin import embed
from rerank_plugin.base.errors import InputError
from rerank_plugin.concepts.knowledge_base import KnowledgeBase
from rerank_plugin.knowledge.concept_vectors import load_concept_vectors, save_concept_vectors
from rerank_plugin.knowledge.entries import Concept, Relation
from rerank_plugin.knowledge.transe import TransEConfig
from tests.annotated import knowledge_base
from tests.sealing import unsealed

IDS = ["D1", "D 2", "ζ3"]
MATRIX = np.arange(12, dtype=np.float32).reshape(3, 4)
RELATIONS = np.ones((2, 4), np.float32)


@pytest.fixture
def written(tmp_path):
    save_concept_vectors(IDS, MATRIX, RELATIONS, tmp_path / "vectors", {"seed": 1})
    return tmp_path / "vectors"


def test_saved_vectors_are_loaded(written):
    loaded = load_concept_vectors(written)
    assert loaded.ids == IDS and (loaded.matrix == MATRIX).all() and loaded.matrix.dtype == np.float32
    assert (load_file(written / "concepts.safetensors")["relations"] == RELATIONS).all()
    assert json.loads((unsealed(written) / "concepts.json").read_text()) == {"concepts": 3, "dimension": 4, "seed": 1}


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda folder: (folder / "concepts.txt").write_text("D1\nD2\n"), "has 2 lines but concepts.safetensors 3"),
        (lambda folder: (folder / "concepts.txt").write_text("D1\nD2\nD1\n"), "names a concept twice"),
        (lambda folder: save_file({"other": MATRIX}, folder / "concepts.safetensors"), "no matrix named 'vectors'"),
        (lambda folder: save_file({"vectors": MATRIX / 0}, folder / "concepts.safetensors"), "not finite"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_invalid_folders_are_errors(written, change, message):
    change(unsealed(written))
    with pytest.raises(InputError, match=message):
        load_concept_vectors(written)


def embedded(knowledge, output, *more):
    options = [
        "--dimension",
        "8",
        "--epochs",
        "5",
        "--overwrite",
        *([] if "--holdout" in more else ["--holdout", "0.1"]),
        *more,
    ]
    embed.main(["concepts", "--knowledge", str(knowledge), "--output", str(output), *options])
    return load_concept_vectors(output), json.loads((output / "concepts.json").read_text())


def test_the_command_trains_without_the_held_out_relations_except_with_final(sample_knowledge, tmp_path, capsys):
    held, settings = embedded(sample_knowledge, tmp_path / "held")
    opened = KnowledgeBase(sample_knowledge)
    assert held.ids == opened.ids.take(np.arange(len(opened))) and held.matrix.shape == (len(opened), 8)
    assert settings["knowledge"]["checksum"] == opened.checksum and settings["relations"] == ["broader", "concerns"]
    assert settings["trained_on"] + settings["measured"]["triples"] == len(opened.heads)
    assert settings["transe"]["dimension"] == 8 and settings["seed"] == 42
    printed = capsys.readouterr().out
    assert f"hits@10 {settings['measured']['hits_at_10']:.4f}" in printed and "205 concepts, 8 dimensions" in printed

    again, _ = embedded(sample_knowledge, tmp_path / "again")
    assert (held.matrix == again.matrix).all()
    final, final_settings = embedded(sample_knowledge, tmp_path / "final", "--final")
    on_all, settings_on_all = embedded(sample_knowledge, tmp_path / "every", "--holdout", "0")
    assert (final.matrix == on_all.matrix).all() and not np.allclose(final.matrix, held.matrix)
    assert final_settings["measured"] == settings["measured"] and settings_on_all["measured"] is None
    assert final_settings["trained_on"] == settings_on_all["trained_on"] == len(opened.heads)


def test_the_command_has_the_defaults_of_the_library():
    options = embed.arguments().parse_args(["concepts", "--knowledge", "kb", "--output", "v"])
    config = TransEConfig()
    assert {name: getattr(options, name) for name in asdict(config)} == asdict(config)


def test_the_command_refuses_invalid_options(sample_knowledge, tmp_path, capsys):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="is not a folder of concept vectors"):
        embed.main(["concepts", "--knowledge", str(sample_knowledge), "--output", str(tmp_path / "there")])
    with pytest.raises(InputError, match="is not a compiled knowledge base: there is no such folder; compile it with"):
        embed.main(["concepts", "--knowledge", str(tmp_path / "no"), "--output", str(tmp_path / "v")])
    for option, value in (("--dimension", "0"), ("--holdout", "1"), ("--margin", "0"), ("--learning-rate", "nan")):
        with pytest.raises(SystemExit) as exit:
            embed.main(["concepts", "--knowledge", "kb", "--output", str(tmp_path / "v"), option, value])
        assert exit.value.code == 2 and option in capsys.readouterr().err


def test_a_star_cannot_be_held_out(tmp_path):
    concepts = [Concept(f"D{i}", f"N{i}") for i in range(9)]
    star = knowledge_base(tmp_path / "kb", concepts, [Relation(f"D{i}", "parent", "D0") for i in range(1, 9)]).folder
    with pytest.raises(InputError, match="no pair of concepts can be held out"):
        embedded(star, tmp_path / "v")
    assert len(embedded(star, tmp_path / "v", "--holdout", "0")[0].ids) == 9
