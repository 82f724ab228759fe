// The page's state, kept as parameters of its address: index, query, how it is read, the text to rank by, stage, left, right, hits, sort, filters, and the
// open document.

const NAMES = ["index", "query", "syntax", "rank", "stage", "left", "right", "hits", "sort", "doc", "side"];
const DEFAULTS = { syntax: "pubmed", left: "none", hits: "10", sort: "score" };

export function fromAddress() {
  const parameters = new URLSearchParams(location.search);
  const state = { filter: parameters.getAll("filter") };
  for (const name of NAMES) state[name] = parameters.get(name) ?? DEFAULTS[name] ?? "";
  return state;
}

/** Keep the state in the address: as a new entry of the history, or in the place of the current one. An entry of an open
 * document says so, so that closing the document can go back. */
export function toAddress(state, replace = false) {
  const parameters = new URLSearchParams();
  for (const name of NAMES) if (state[name] && state[name] !== DEFAULTS[name]) parameters.set(name, state[name]);
  for (const value of state.filter) parameters.append("filter", value);
  const address = `?${parameters}`;
  if (address === location.search) return;
  if (replace) history.replaceState(null, "", address);
  else history.pushState({ document: Boolean(state.doc) }, "", address);
}
