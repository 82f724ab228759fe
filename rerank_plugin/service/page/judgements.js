// Judgments, kept in the browser by index, query and document; and the texts of qrels and TREC runs.

// The spelling of the key stays, so that a browser keeps its judgments.
const key = (index) => `rerank_plugin judgements ${index}`;
// White space separates the columns of TREC files, so the id of a query is its words joined by _.
const queryId = (query) => query.trim().split(/\s+/).join("_");

const all = (index) => JSON.parse(localStorage.getItem(key(index)) ?? "{}");

/** 1: relevant; 0: not relevant; undefined: not judged. */
export const judgment = (index, query, docid) => all(index)[queryId(query)]?.[docid];

export function judge(index, query, docid, relevance) {
  const judged = all(index);
  const documents = (judged[queryId(query)] ??= {});
  if (relevance === undefined) delete documents[docid];
  else documents[docid] = relevance;
  localStorage.setItem(key(index), JSON.stringify(judged));
}

export function qrels(index) {
  const queries = Object.entries(all(index));
  const lines = ([query, judged]) =>
    Object.entries(judged).map(([docid, relevance]) => `${query} 0 ${docid} ${relevance}\n`);
  return queries.flatMap(lines).join("");
}

export function run(answer) {
  const query = queryId(answer.query.text);
  const tag = answer.reranker === "none" ? answer.first_stage : `${answer.first_stage}+${answer.reranker}`;
  return answer.candidates.map((hit) => `${query} Q0 ${hit.docid} ${hit.rank} ${hit.score} ${tag}\n`).join("");
}

