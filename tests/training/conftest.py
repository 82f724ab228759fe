"""The small index of the rerankers' tests, and what the train command needs for the learnable problem."""

import pytest

from rerank_plugin.text import word_vectors
from tests import small
from tests.models.conftest import index, one_thread, vectors  # noqa: F401
from tests.training import learnable


@pytest.fixture(scope="session")
def inputs(tmp_path_factory):
    """An index folder, word vectors, and queries, judgments and runs for training, validation, and both together."""
    folder = tmp_path_factory.mktemp("command")
    corpus = learnable.build(folder / "index")
    small.describe(corpus)
    word_vectors.save(learnable.vectors(), folder / "words", {})
    trained = learnable.TRAINED
    parts = {"train": learnable.TOPICS[:trained], "dev": learnable.TOPICS[trained:], "all": learnable.TOPICS}
    for name, topics in parts.items():
        queries = learnable.queries(topics)
        (folder / f"{name}.tsv").write_text("".join(f"{query.id}\t{query.text}\n" for query in queries))
        judged = [(q.id, id, level) for q in queries for id, level in learnable.judgments()[q.id].items()]
        (folder / f"{name}.qrels").write_text("".join(f"{query} 0 {id} {level}\n" for query, id, level in judged))
        ids = [corpus.ids[row] for row in range(len(corpus))]
        (folder / f"{name}.run").write_text(
            "".join(f"{q.id} Q0 {id} {rank} {1000 - rank} bm25\n" for q in queries for rank, id in enumerate(ids, 1))
        )
    for name in ("new.tsv", "new.qrels"):  # the validation queries under other ids
        text = (folder / name.replace("new", "dev")).read_text()
        (folder / name).write_text(text.replace("q-", "new-"))
    return folder, corpus
