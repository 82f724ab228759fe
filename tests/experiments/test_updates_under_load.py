"""Updates under load: which answers count as wrong."""

from experiments.updates_under_load import HITS, LATE, Client, Period, fault
from rerank_plugin import Searcher
from rerank_plugin.service.config import ServiceConfig
from tests.service.live import serving

TEXT = "stroke prevention aspirin"


def found(folder, reranker):
    with Searcher(folder, reranker) as searcher:
        return [(hit.docid, hit.score) for hit in searcher.search(TEXT, HITS)]


def test_an_answer_after_the_deadline_has_to_be_that_of_the_first_stage(index_folder):
    period, ranked, first_stage = Period("reload", 0, 0), found(index_folder, "delta"), found(index_folder, None)
    results = [{("delta", TEXT): ranked, (LATE["delta"], TEXT): first_stage}] * 2
    for deadline, mode in ((60, "delta"), (1e-6, LATE["delta"])):
        with serving(ServiceConfig({"index": str(index_folder)}, {"delta": "delta"}, deadline=deadline)) as service:
            answer = Client(str(service.base_url), "").ask("delta", TEXT)
        assert answer.mode == mode and not fault(answer, [period], results)
        other = ({"delta", LATE["delta"]} - {mode}).pop()
        assert "not the answer of the generations 1 to 1" in fault(answer._replace(mode=other), [period], results)
        wrong = answer._replace(hits=[*answer.hits[1:], answer.hits[0]])
        assert "but of none; places [0," in fault(wrong, [period], results)
