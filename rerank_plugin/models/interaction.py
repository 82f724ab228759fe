"""Interaction models: their common base class, fast path and attribution.

The score of a document is a function of its interaction matrix with the query, and each cell of the matrix is a
function of its two words. So the fast path computes the cells of each distinct word of the candidates once, gathers
them into the matrix of each document, and leaves the rest to the module: its scores equal the module's up to rounding.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from rerank_plugin.inputs.builder import InputBuilder, Inputs
from rerank_plugin.inputs.interactions import candidate_words
from rerank_plugin.kernels.parallel import Workspace
from rerank_plugin.models.attribution import Attribution
from rerank_plugin.models.base import C, RerankerOptions
from rerank_plugin.models.device_path import Batch, DevicePath, DocumentRange, PaddedWords
from rerank_plugin.models.fast_paths import ModulePath, ScoringTask
from rerank_plugin.models.ranking_model import FixedVectorModel

BATCH_SIZE = 128  # documents of similar length; their matrices fit into the CPU caches


class InteractionModel(FixedVectorModel[C]):
    """A model in two halves, matrix and score; padding of documents and queries does not change scores.

    Attributes:
        matrix_name: the name of the matrix in explanations.
        values_of_cell: numbers of the largest intermediate result for each cell.
    """

    any_width: ClassVar[bool] = True
    matrix_name: str = "cosine"
    values_of_cell: int = 4

    @abstractmethod
    def interaction(self, inputs: Inputs) -> Tensor:
        """The matrix, [B, M, N] of any dtype; a cell depends only on its two words and on whether they are padding."""

    @abstractmethod
    def score(self, matrix: Tensor, inputs: Inputs) -> Tensor:
        """Scores, float [B], from the matrix [B, M, N]."""

    def forward(self, inputs: Inputs) -> Tensor:
        return self.score(self.interaction(inputs), inputs)  # [B]


class InteractionPath(ModulePath):
    """Scores candidates with the two halves of the module, on the device of its word vectors."""

    gathers_words, of_index = True, False

    def __init__(self, model: InteractionModel[Any], builder: InputBuilder, options: RerankerOptions):
        self.model, self.builder, self.workspace = model, builder, Workspace()

    @torch.inference_mode()
    def score_many(self, tasks: Sequence[ScoringTask]) -> list[np.ndarray]:
        return [self._score(task) for task in tasks]

    def _score(self, task: ScoringTask) -> np.ndarray:
        terms, query, candidates, device = task.terms, task.words, task.candidates, self.model.vectors.device
        words = candidate_words(self.builder, candidates, self.workspace)
        count, length = len(words.terms), max(int(query.mask.sum()), 1)  # U, m
        features = torch.from_numpy(self.builder.features(terms, candidates))  # [C, F]
        # One document of all distinct words, with one padded position at the end.
        word_ids, word_terms = (
            torch.from_numpy(np.append(numbers, padding).astype(np.int64)).to(device)
            for numbers, padding in ((words.ids, 0), (words.terms, -1))
        )  # [U + 1] each
        query_ids, query_mask, query_terms, query_idf = (
            torch.from_numpy(numbers[:length]).to(device)[None]
            for numbers in (query.ids, query.mask, query.terms, query.idf)
        )  # [1, m] each
        distinct = Inputs(
            documents=word_ids[None],
            document_mask=(torch.arange(count + 1, device=device) < count)[None],
            queries=query_ids,
            query_mask=query_mask,
            features=features[:1].to(device),
            document_terms=word_terms[None],
            query_terms=query_terms,
            query_idf=query_idf,
        )
        table = self.model.interaction(distinct)[0]  # [m, U + 1]
        order = np.argsort(-words.lengths, kind="stable")
        scores = torch.empty(len(order), device=device)
        for start in range(0, len(order), BATCH_SIZE):
            rows = order[start : start + BATCH_SIZE]
            width = max(int(words.lengths[rows[0]]), 1)  # N
            present = np.arange(width) < words.lengths[rows, None]  # [B, N]
            columns = torch.from_numpy(np.where(present, words.places[rows, :width], count).astype(np.int64)).to(
                device
            )  # of the table, [B, N]
            inputs = Inputs(
                documents=word_ids[columns],
                document_mask=torch.from_numpy(present).to(device),
                queries=query_ids.expand(len(rows), -1),
                query_mask=query_mask.expand(len(rows), -1),
                features=features[rows].to(device),
                document_terms=word_terms[columns],
                query_terms=query_terms.expand(len(rows), -1),
                query_idf=query_idf.expand(len(rows), -1),
            )
            matrix = table[:, columns].transpose(0, 1)  # [B, m, N]
            scores[torch.from_numpy(rows).to(device)] = self.score(matrix, inputs, candidates.rows[rows])
        return scores.cpu().numpy()

    def score(self, matrix: Tensor, inputs: Inputs, rows: np.ndarray) -> Tensor:
        """Scores, float [B], from the matrices [B, m, N] of the documents in some rows of the index, int64 [B]."""
        return self.model.score(matrix, inputs)


class InteractionOnDevice(DevicePath[C]):
    """Scores candidates on a device with the two halves of the module.

    The cells of the whole vocabulary and the words of all queries are computed as one matrix, whose "document" ends
    with the query words themselves, for those that the model does not know, and one padded position. L are its words.
    """

    model: InteractionModel[C]

    def numbers(self, words: int, query_words: int) -> int:
        return words * query_words * self.model.values_of_cell

    def read(self, batch: Batch) -> Tensor:
        """The cells, [L, Q, M] of any dtype."""
        queries, mask = batch.queries.flatten(), batch.query_mask.flatten()  # [Q M] each
        words, count = len(self.model.vectors), len(queries)  # V
        # Numbers that are equal for the same word: ids, and beyond these the first place of an unknown word.
        same = batch.query_terms[:, :, None] == batch.query_terms[:, None, :]  # [Q, M, M]
        first = same.int().argmax(dim=2)  # [Q, M]
        rows = torch.arange(len(first), device=first.device)[:, None] * first.shape[1]  # [Q, 1]
        terms = torch.where(queries > 0, queries, words + (rows + first).flatten())  # [Q M]
        vocabulary = torch.arange(words, device=queries.device)  # [V]
        padding = queries.new_zeros(1)
        distinct = Inputs(
            documents=torch.cat([vocabulary, queries, padding])[None],
            document_mask=torch.cat([torch.ones_like(vocabulary, dtype=torch.bool), mask, padding.bool()])[None],
            queries=queries[None],
            query_mask=mask[None],
            features=batch.query_idf.new_zeros(1, 0),
            document_terms=torch.cat([vocabulary.masked_fill(vocabulary == 0, -1), terms, padding - 1])[None],
            query_terms=terms[None],
            query_idf=batch.query_idf.flatten()[None],
        )
        cells = self.model.interaction(distinct)[0]  # [Q M, L]
        return cells.T.reshape(words + count + 1, *batch.queries.shape).contiguous()

    def matrix(self, batch: Batch, read: Tensor, part: DocumentRange, words: PaddedWords) -> Tensor:
        """The interaction matrices of the documents of a part, [n, M, N]."""
        query, known, size = batch.query[part.first : part.last], len(self.model.vectors), batch.queries.shape[1]
        wanted = torch.where(batch.queries > 0, -2, batch.query_terms)[query]  # [n, M], of unknown words
        same = (words.terms[:, :, None] == wanted[:, None, :]) & words.mask[:, :, None]  # [n, N, M]
        own = known + query[:, None] * size + same.int().argmax(dim=2)  # [n, N]
        columns = torch.where((words.ids == 0) & same.any(dim=2), own, words.ids)  # [n, N]
        columns = torch.where(words.mask, columns, len(read) - 1)
        return read[columns, query[:, None]].transpose(1, 2)  # [n, M, N]

    def inputs(self, batch: Batch, part: DocumentRange, words: PaddedWords, features: Tensor) -> Inputs:
        """The inputs of the documents of a part; B is n."""
        query = batch.query[part.first : part.last]  # [n]
        return Inputs(
            words.ids, words.mask, batch.queries[query], batch.query_mask[query], features, words.terms,
            batch.query_terms[query], batch.query_idf[query],
        )  # fmt: skip

    def score(self, batch: Batch, read: Tensor, part: DocumentRange, words: PaddedWords, features: Tensor) -> Tensor:
        matrix = self.matrix(batch, read, part, words)
        return self.model.score(matrix, self.inputs(batch, part, words, features))


def explain_cells(model: InteractionModel[Any], inputs: Inputs) -> Attribution:
    """The attribution of one document's score by integrated gradients over the cells of a matrix of floats; B = 1."""
    from rerank_plugin.models.integrated_gradients import in_double, interaction_attribution

    model, inputs = in_double(model, inputs)
    matrix = model.interaction(inputs)  # [1, M, N]

    def score(cells: Tensor) -> Tensor:
        return model.score(matrix * cells, inputs)  # [S]

    return interaction_attribution(model, inputs, score, matrix, matrix_name=model.matrix_name)


InteractionModel.roles = {"fast": InteractionPath, "device": InteractionOnDevice, "explain": explain_cells}
