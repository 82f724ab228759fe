// The page's state, kept as parameters of its address, so that a link holds every choice.

/** What an address may hold, with its defaults:
 * index, query, syntax, rank: what is searched, how the query is read, the text that ranks it;
 * stage, reranker: the ranking of the list (by default the index's recommended one); expand: what else its words find; left, right: those of a comparison,
 * `bm25` or `bm25,delta`; view: empty for the list, or `compare`;
 * sort, page, hits: order, page and its length; screen: empty, or which documents of a screening are listed;
 * doc, side: the open document, and the side of the comparison that explains it. */
const DEFAULTS = {
  index: "", query: "", syntax: "pubmed", rank: "", stage: "", reranker: "", expand: "", view: "", left: "", right: "", sort: "score",
  page: "1", hits: "20", screen: "", doc: "", side: "",
};

export function fromAddress() {
  const parameters = new URLSearchParams(location.search);
  const state = { filter: parameters.getAll("filter") };
  for (const [name, value] of Object.entries(DEFAULTS)) state[name] = parameters.get(name) ?? value;
  return state;
}

/** The address of a state. */
export function addressOf(state) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(DEFAULTS)) if (state[name] !== value) parameters.set(name, state[name]);
  for (const value of state.filter) parameters.append("filter", value);
  return `?${parameters}`;
}

/** Keep the state in the address: as a new entry of the history, or in the place of the current one. An entry of an open
 * document says so, so that closing the document can go back. */
export function toAddress(state, replace = false) {
  const address = addressOf(state);
  if (address === (location.search || "?")) return;
  if (replace) history.replaceState(history.state, "", address);
  else history.pushState({ document: Boolean(state.doc) }, "", address);
}

/** The parameters of the service that say what is searched: the query, how it is read, the filters. */
export function asked({ query, syntax, rank, filter }) {
  return { query, query_syntax: syntax, rank_by: syntax === "plain" ? "" : rank, filter };
}
