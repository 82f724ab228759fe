"""Word pieces of an index's terms against the tokenizer itself, and the gathering against a plain loop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank_plugin.base.errors import InputError
from rerank_plugin.inputs import word_pieces
from rerank_plugin.inputs.word_pieces import (
    PieceBuilder,
    PieceTable,
    Template,
    _gather,
    make_table,
    piece_table,
    plain_tokenizer,
    template,
)
from rerank_plugin.text.tokenizer import NUMERIC_CLASSES, tokenizer
from tests import small
from tests.models import tiny_encoders

DOCUMENTS = [
    ("1", "Heart", "Hearts attack."),
    ("2", "", "5% of 1,200 hearts"),
    ("3", "", ""),
    ("4", "Unwritable ☃ 糖", "heart"),
]
PIECES = "[PAD] [UNK] [CLS] [SEP] a heart ##s at ##tack 5 ##0 % of 1 unwritable".split()


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return small.build_index(tmp_path_factory.mktemp("pieces") / "forward", DOCUMENTS)


@pytest.fixture(scope="module")
def bert():
    """BERT's tokenizer over ``PIECES``, made without transformers."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer
    from tokenizers.processors import BertProcessing

    tokenizer = Tokenizer(WordPiece({piece: id for id, piece in enumerate(PIECES)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = BertNormalizer(lowercase=True), BertPreTokenizer()
    tokenizer.post_processor = BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


@pytest.fixture(scope="module")
def roberta(tmp_path_factory):
    """A byte-level tokenizer, which writes a word otherwise at the beginning of a text."""
    from transformers import AutoTokenizer

    folder = tmp_path_factory.mktemp("roberta") / "made"
    tiny_encoders.save_roberta_tokenizer(folder, [" ".join(texts) for _, *texts in DOCUMENTS], prefix_space=False)
    return plain_tokenizer(AutoTokenizer.from_pretrained(folder).backend_tokenizer)


def text_of(index, row):
    """A document as the encoder is to read it."""
    return " ".join(map(word_pieces.term_text, index.terms.take(index.document_tokens(row))))


def test_golden_pieces(index, bert):
    """'hearts' has two pieces, '5%' is read as 50%, 1,200 as 10, and what has no pieces is [UNK]."""
    builder = PieceBuilder(index, bert, 6, 4, unknown=1)
    words = builder.documents(small.candidates(index))
    spelled = [[PIECES[id] for id in row[mask]] for row, mask in zip(words.ids, words.mask)]
    assert spelled == [
        ["heart", "heart", "##s", "at", "##tack"],
        ["5", "##0", "%", "of", "1", "##0"],  # 'hearts' is cut
        [],
        ["unwritable", "[UNK]", "heart"],
    ]
    assert not words.ids[~words.mask].any() and (words.terms == -1).all()


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_documents_are_what_the_tokenizer_makes_of_their_words(index, kind, request):
    tokenizer = request.getfixturevalue(kind)
    words = PieceBuilder(index, tokenizer, 100, 20).documents(small.candidates(index))
    for row in range(len(index)):
        expected = tokenizer.encode(text_of(index, row), add_special_tokens=False).ids
        assert words.ids[row][words.mask[row]].tolist() == expected
        assert words.mask[row].tolist() == [place < len(expected) for place in range(100)]


def test_beginnings_only_where_they_differ(index, bert, roberta):
    assert make_table(index.terms, bert).at_start == 0
    table = make_table(index.terms, roberta)
    assert table.at_start == len(index.terms) and len(table.offsets) == 2 * len(index.terms) + 1


def test_numbers_are_numbers_to_the_encoder():
    assert set(word_pieces.NUMBER_EXAMPLES) == set(NUMERIC_CLASSES)
    assert not any("<" in text for text in word_pieces.NUMBER_EXAMPLES.values())


def test_a_query_is_cut_and_padded(index, bert):
    builder = PieceBuilder(index, bert, 6, 4, unknown=1)
    words = builder.query(index.query("Heart attack!"))
    assert words.ids.tolist() == [5, 7, 8, 0] and words.mask.tolist() == [True] * 3 + [False]
    assert (words.known, words.cut) == (3, 0)
    words = builder.query(index.query("attack zzz hearts hearts"))  # zzz is in no document
    assert words.ids.tolist() == [7, 8, 1, 5] and words.mask.all()
    assert (words.known, words.cut) == (3, 3)
    words = builder.query(index.query(""))
    assert not words.mask.any() and (words.known, words.cut) == (0, 0)


def test_a_template_is_read_from_the_tokenizer(bert, roberta):
    assert template(bert, "here") == Template((2,), (3,), (3,), (0, 0, 0, 1, 1))
    assert template(bert, "here").specials == 3
    start, end = roberta.token_to_id("<s>"), roberta.token_to_id("</s>")
    assert template(roberta, "here") == Template((start,), (end, end), (end,), (0, 0, 0, 0, 0))


def test_a_tokenizer_without_special_pieces(bert):
    bare = plain_tokenizer(bert)
    from tokenizers.processors import TemplateProcessing

    for single, pair in [("$A", "$A $B"), ("$A", "$A [SEP] $B"), ("[CLS] $A", "[CLS] $A $B")]:
        bare.post_processor = TemplateProcessing(single, pair, [("[CLS]", 2), ("[SEP]", 3)])
        with pytest.raises(InputError, match="folder/x joins two texts"):
            template(bare, "folder/x")


def test_cutting_and_padding_of_a_tokenizer_file_do_not_count(index, bert):
    cutting = type(bert).from_str(bert.to_str())
    cutting.enable_truncation(2)
    cutting.enable_padding(length=9)
    plain = plain_tokenizer(cutting)
    for array, expected in zip(make_table(index.terms, plain), make_table(index.terms, bert)):
        np.testing.assert_array_equal(array, expected)
    assert cutting.truncation is not None  # only the copy is changed


def test_a_tokenizer_that_reads_across_blanks(index, bert):
    joined = plain_tokenizer(bert)
    from tokenizers.pre_tokenizers import Split

    joined.pre_tokenizer = Split(",", "isolated")
    with pytest.raises(InputError, match="across blanks"):
        make_table(index.terms, joined)


def test_a_table_is_made_once_for_an_index_and_a_tokenizer(index, bert, roberta, tmp_path):
    first = piece_table(index, bert)
    assert piece_table(index, plain_tokenizer(bert)) is first
    assert piece_table(index, roberta) is not first
    another_index = small.build_index(tmp_path / "forward", DOCUMENTS)
    assert piece_table(another_index, bert) is not first


def test_many_terms_are_turned_in_parts(index, bert, monkeypatch):
    whole = make_table(index.terms, bert)
    monkeypatch.setattr(word_pieces, "CHUNK", 2)
    for array, expected in zip(make_table(index.terms, bert), whole):
        np.testing.assert_array_equal(array, expected)


def test_an_index_of_nothing(tmp_path, bert):
    empty = small.build_index(tmp_path / "forward", [("1", "", "")])
    words = PieceBuilder(empty, bert, 5, 3).documents(small.candidates(empty))
    assert words.ids.shape == (1, 5) and not words.mask.any()


def test_stems_are_refused(index, bert):
    stemmed = small.open_segment(index.folder, tokenizer=tokenizer("krovetz"))
    with pytest.raises(InputError, match="holds stems"):
        PieceBuilder(stemmed, bert, 5, 3)


@given(st.data())
def test_gathering_as_a_plain_loop(data):
    """Terms of any number of pieces, none included, and documents of any length."""
    terms = data.draw(st.integers(1, 5))
    rows = data.draw(st.lists(st.lists(st.integers(1, 99), max_size=4), min_size=2 * terms, max_size=2 * terms))
    at_start = data.draw(st.sampled_from([0, terms]))
    tokens = np.array(data.draw(st.lists(st.integers(0, terms - 1), max_size=20)), np.uint32)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(tokens)), min_size=2, max_size=5)))
    width = data.draw(st.integers(1, 9))
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    table = PieceTable(offsets, np.array(sum(rows, []), np.int32), at_start)
    starts = np.array(cuts[:-1], np.int64)
    lengths = np.diff(np.array(cuts, np.int64))
    ids, counts = np.zeros((len(starts), width), np.int64), np.zeros(len(starts), np.int64)
    _gather(tokens, starts, lengths, *table, ids, counts)
    for start, length, row_ids, count in zip(starts, lengths, ids, counts):
        words = tokens[start : start + length].tolist()
        pieces = sum((rows[word + (at_start if place == 0 else 0)] for place, word in enumerate(words)), [])[:width]
        assert count == len(pieces) and row_ids.tolist() == pieces + [0] * (width - len(pieces))
