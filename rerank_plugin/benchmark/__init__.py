"""What ``rerank-plugin bench`` measures, and how.

* `machine`: the machine in one line, and peak memory.
* `collection`: what is searched: collections of the sample's kind in any size, or an index that is there.
* `best_matches`: documents to score where no first stage ran.
* `subjects`: the rerankers, by default with random weights (speed does not depend on them), each on its plain and its
  fast path, and the encodings that SevMos and KTRel score from.
* `measuring`: the clock. Paths take turns, so that whatever else the machine does hits both.
* `scoring`, `whole_query`, `dense_search`: what is timed for a reranker.
* `service_load`, `http_clients`: the service, and what it is asked by.
* `suite`: all measurements of a run, in order.
* `rows`, `latency_plot`: the results, for programs and for people.

Nothing here needs Java but `whole_query`, `service_load` and collections with a Lucene index.
"""
