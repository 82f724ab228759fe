"""String tables and the forward index against plain Python."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rerank_plugin.files.arrays import ArrayWriter, open_array, ranges
from rerank_plugin.files.string_table import (
    SeenHashes,
    StringTable,
    StringTableWriter,
    hash_strings,
    lexicographic_ranks,
)
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import FIELDS, ForwardIndex, ForwardIndexWriter, idf
from rerank_plugin.text.tokenizer import tokenize

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


def table(folder, strings, hashes=None):
    writer = StringTableWriter(folder, "names", searchable=True)
    writer.extend(strings[: len(strings) // 2], None if hashes is None else hashes[: len(strings) // 2])
    writer.extend(strings[len(strings) // 2 :], None if hashes is None else hashes[len(strings) // 2 :])
    writer.close()
    return StringTable(folder, "names")


@settings(max_examples=40, deadline=None)
@given(st.lists(names, min_size=1, max_size=20, unique=True), st.lists(names, max_size=5))
def test_string_tables_give_back_what_they_got(tmp_path_factory, strings, others):
    made = table(tmp_path_factory.mktemp("table"), strings)
    assert [made[row] for row in range(len(made))] == strings
    rows = np.arange(len(strings))[::-1]
    assert made.take(rows) == strings[::-1]
    wanted = strings + others
    assert made.find(wanted).tolist() == [strings.index(one) if one in strings else -1 for one in wanted]
    ranked = sorted(strings, key=lambda one: one.encode().rstrip(b"\0"))
    if len({one.rstrip("\0") for one in strings}) == len(strings):
        assert lexicographic_ranks(made).tolist() == [ranked.index(one) for one in strings]


def test_equal_hashes_do_no_harm(tmp_path):
    """'a' and 'b' are written under the hash of 'a': the string itself decides."""
    hashes = np.repeat(hash_strings(["a"]), 3)
    made = table(tmp_path, ["b", "a", "c"], hashes)
    assert made.find(["a", "d"]).tolist() == [1, -1]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(0, 30), max_size=8), max_size=12))
def test_seen_hashes_is_a_set(batches):
    seen, expected = SeenHashes(), set()
    for batch in batches:
        batch = sorted(set(batch))
        assert seen.seen(np.array(batch, np.uint64)).tolist() == [one in expected for one in batch]
        seen.add(np.array([one for one in batch if one not in expected], np.uint64))
        expected |= set(batch)


def test_arrays_grow_on_disk(tmp_path):
    writer = ArrayWriter(tmp_path / "array.npy", np.uint32)
    for part in ([], [1, 2], range(10**5)):
        writer.append(np.array(part, np.uint32))
    writer.close()
    assert open_array(tmp_path / "array.npy").tolist() == [1, 2, *range(10**5)]


def test_ranges():
    assert ranges(np.array([5, 0, 9]), np.array([2, 0, 3])).tolist() == [5, 6, 9, 10, 11]


words = st.sampled_from("aspirin Heart heart β-catenin IL-2 0.05 12 the p53".split())
texts = st.lists(words, max_size=6).map(" ".join)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=6), st.integers(1, 10))
def test_the_forward_index_agrees_with_a_plain_one(tmp_path_factory, documents, width):
    folder = tmp_path_factory.mktemp("forward") / "forward"
    ids = [f"d{number}" for number in range(len(documents))]
    writer = ForwardIndexWriter(folder)
    for at in range(0, len(ids), 2):  # in batches
        titles, abstracts = zip(*documents[at : at + 2])
        writer.extend(ids[at : at + 2], list(titles), list(abstracts), hash_strings(ids[at : at + 2]))
    writer.close_streams()
    statistics = writer.finish(np.arange(len(ids)))
    index = ForwardIndex(folder, {field: numbers.mean_length for field, numbers in statistics.items()})

    parts = [(tokenize(title), tokenize(abstract)) for title, abstract in documents]
    fields = {"title": [t for t, _ in parts], "abstract": [a for _, a in parts], "text": [t + a for t, a in parts]}
    known = sorted({word for text in fields["text"] for word in text})
    term_ids = index.terms.find(known)
    df = {word: sum(word in text for text in fields["text"]) for word in known}
    for field in FIELDS:
        frequency = index.document_frequency[field]
        assert [int(frequency[id]) for id in term_ids] == [sum(w in text for text in fields[field]) for w in known]
        assert index.unique_terms[field].tolist() == [len(set(text)) for text in fields[field]]
        mass = [sum(float(idf(df[word], len(parts))) for word in set(text)) for text in fields[field]]
        np.testing.assert_allclose(index.idf_mass[field], mass, rtol=1e-5, atol=1e-6)
        assert statistics[field].mean_length == sum(map(len, fields[field])) / len(parts)
    assert index.title_lengths.tolist() == [len(text) for text in fields["title"]]
    for row, text in enumerate(fields["text"]):
        assert index.terms.take(index.document_tokens(row)) == text

    rows = np.arange(len(ids))[::-1]
    candidates = Candidates(index, rows, np.zeros(len(ids), np.float32))
    tokens, mask = candidates.padded_tokens(width)
    for place, row in enumerate(rows):
        text = fields["text"][row][:width]
        assert mask[place].tolist() == [True] * len(text) + [False] * (width - len(text))
        assert index.terms.take(tokens[place][mask[place]]) == text and not tokens[place][~mask[place]].any()
    flat = candidates.flat_tokens
    assert index.terms.take(flat.ids) == [word for row in rows for word in fields["text"][row]]
    assert flat.position.tolist() == [at for row in rows for at in range(len(fields["text"][row]))]
    scores = np.round(np.linspace(0, 1, len(ids)), 0).astype(np.float32)
    ranked = sorted(range(len(ids)), key=lambda at: (scores[at], ids[rows[at]]), reverse=True)
    assert candidates.order(scores).tolist() == ranked
