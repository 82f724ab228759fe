// What the page shows, as the parameters of its address: index, query, stage, left, right, hits, sort, filters, and
// the open document.

const NAMES = ["index", "query", "stage", "left", "right", "hits", "sort", "doc", "side"];
const DEFAULTS = { left: "none", hits: "10", sort: "score" };

export function fromAddress() {
  const given = new URLSearchParams(location.search);
  const state = { filter: given.getAll("filter") };
  for (const name of NAMES) state[name] = given.get(name) ?? DEFAULTS[name] ?? "";
  return state;
}

export function toAddress(state) {
  const given = new URLSearchParams();
  for (const name of NAMES) if (state[name] && state[name] !== DEFAULTS[name]) given.set(name, state[name]);
  for (const value of state.filter) given.append("filter", value);
  const address = `?${given}`;
  if (address !== location.search) history.pushState(null, "", address);
}
