"""The family of interaction models: one base class, one fast path and one explanation for all of them.

The score of a document is a function of its interaction matrix with the query, and each cell of the matrix is a
function of its two words. So the fast path computes the cells of each distinct word of the candidates once, gathers
them to the matrix of each document, and leaves the rest to the module: its scores are the module's but for rounding.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from rerank_plugin.inputs.builder import InputBuilder, Inputs
from rerank_plugin.inputs.interactions import candidate_words
from rerank_plugin.kernels.parallel import Workspace
from rerank_plugin.models.attribution import Attribution
from rerank_plugin.models.base import C, RerankerOptions
from rerank_plugin.models.fast_paths import ModulePath, Task
from rerank_plugin.models.ranking_model import FixedVectorModel

AT_ONCE = 128  # documents in one batch: some of similar length, whose matrices stay in the caches


class InteractionModel(FixedVectorModel[C]):
    """A model in two halves; scores do not depend on how far documents or queries are padded.

    Attributes:
        matrix_name: what the cells of the matrix are, in explanations.
    """

    any_width: ClassVar[bool] = True
    matrix_name: str = "cosine"

    @abstractmethod
    def interaction(self, inputs: Inputs) -> Tensor:
        """The matrix, [B, M, N] of any type: a cell depends on its two words, and on whether they are padding."""

    @abstractmethod
    def score(self, matrix: Tensor, inputs: Inputs) -> Tensor:
        """Scores, float [B], from the matrix [B, M, N]."""

    def forward(self, inputs: Inputs) -> Tensor:
        return self.score(self.interaction(inputs), inputs)  # [B]


class InteractionPath(ModulePath):
    """Scores candidates by the two halves of the module, on the device of its word vectors."""

    gathers_words, of_index = True, False

    def __init__(self, model: InteractionModel, builder: InputBuilder, options: RerankerOptions):
        self.model, self.builder, self.workspace = model, builder, Workspace()

    @torch.inference_mode()
    def score_many(self, tasks: Sequence[Task]) -> list[np.ndarray]:
        return [self._score(task) for task in tasks]

    def _score(self, task: Task) -> np.ndarray:
        terms, query, candidates, device = task.terms, task.words, task.candidates, self.model.vectors.device
        words = candidate_words(self.builder, candidates, self.workspace)
        count, length = len(words.terms), max(int(query.mask.sum()), 1)  # U, m
        features = torch.from_numpy(self.builder.features(terms, candidates))  # [C, F]
        distinct = Inputs(  # one document of all distinct words, and of padding at the end
            documents=torch.from_numpy(np.append(words.ids, 0).astype(np.int64))[None],
            document_mask=(torch.arange(count + 1) < count)[None],
            queries=torch.from_numpy(query.ids[:length])[None],
            query_mask=torch.from_numpy(query.mask[:length])[None],
            features=features[:1],
            document_terms=torch.from_numpy(np.append(words.terms, -1).astype(np.int64))[None],
            query_terms=torch.from_numpy(query.terms[:length])[None],
            query_idf=torch.from_numpy(query.idf[:length])[None],
        ).to(device)
        table = self.model.interaction(distinct)[0]  # [m, U + 1]
        order = np.argsort(-words.lengths, kind="stable")
        scores = torch.empty(len(order), device=device)
        for start in range(0, len(order), AT_ONCE):
            rows = order[start : start + AT_ONCE]
            width = max(int(words.lengths[rows[0]]), 1)  # N
            present = np.arange(width) < words.lengths[rows, None]  # [B, N]
            places = np.where(present, words.places[rows, :width], count).astype(np.int64)
            at = torch.from_numpy(places).to(device)  # [B, N]
            inputs = Inputs(
                documents=distinct.documents[0, at],
                document_mask=torch.from_numpy(present).to(device),
                queries=distinct.queries.expand(len(rows), -1),
                query_mask=distinct.query_mask.expand(len(rows), -1),
                features=features[rows].to(device),
                document_terms=distinct.document_terms[0, at],
                query_terms=distinct.query_terms.expand(len(rows), -1),
                query_idf=distinct.query_idf.expand(len(rows), -1),
            )
            scores[torch.from_numpy(rows).to(device)] = self.model.score(table[:, at].transpose(0, 1), inputs)
        return scores.cpu().numpy()


def explain_cells(model: InteractionModel, inputs: Inputs) -> Attribution:
    """The attribution of one document's score by integrated gradients over the cells of a matrix of floats; B = 1."""
    from rerank_plugin.models.integrated_gradients import in_double, of_interaction

    model, inputs = in_double(model, inputs)
    matrix = model.interaction(inputs)  # [1, M, N]

    def score(cells: Tensor) -> Tensor:
        return model.score(matrix * cells, inputs)  # [S]

    return of_interaction(model, inputs, score, matrix, matrix_name=model.matrix_name)
