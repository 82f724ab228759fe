"""The measurements of ``rerank-plugin bench``.

* `machine`: the machine in one line, and peak memory.
* `collection`: the collections to search: generated ones like the sample, in any size, or an existing index.
* `best_matches`: candidates without a first stage.
* `measured_rerankers`: the rerankers, by default with random weights (speed does not depend on them), each on its plain
  and its fast path, and the encodings of SevMos and KTRel.
* `measuring`: the clock. Paths take turns, so that other load on the machine hits both.
* `scoring`, `whole_query`, `texts`, `dense_search`: the timed work of a reranker.
* `service_load`: the service and its clients.
* `suite`: all measurements of a run, in order.
* `rows`, `latency_plot`: the results as JSON, Markdown and a plot.

Only `whole_query`, `service_load` and collections with a Lucene index need Java.
"""
