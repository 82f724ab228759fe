// Judgements, kept in the browser by index, query and document; and the files that the page exports.

const key = (index) => `rerank_plugin judgements ${index}`;
// TREC's files have columns between white space, so that a query's words are joined to be its id.
const queryId = (query) => query.trim().split(/\s+/).join("_");

const all = (index) => JSON.parse(localStorage.getItem(key(index)) ?? "{}");

/** 1 relevant, 0 not relevant, undefined not judged. */
export const judgement = (index, query, docid) => all(index)[queryId(query)]?.[docid];

export function judge(index, query, docid, relevance) {
  const judged = all(index);
  const documents = (judged[queryId(query)] ??= {});
  if (relevance === undefined) delete documents[docid];
  else documents[docid] = relevance;
  localStorage.setItem(key(index), JSON.stringify(judged));
}

export function qrels(index) {
  const queries = Object.entries(all(index));
  const lines = ([query, found]) => Object.entries(found).map(([id, value]) => `${query} 0 ${id} ${value}\n`);
  return queries.flatMap(lines).join("");
}

export function run(answer) {
  const query = queryId(answer.query.text);
  const tag = answer.reranker === "none" ? answer.first_stage : `${answer.first_stage}+${answer.reranker}`;
  return answer.candidates.map((one) => `${query} Q0 ${one.docid} ${one.rank} ${one.score} ${tag}\n`).join("");
}

export function download(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
