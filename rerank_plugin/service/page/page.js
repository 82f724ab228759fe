// The main module: reads the address, calls the service, shows its answers.

import { ServiceError, file, get, indexPath, keepToken, send } from "./api.js";
import { byId, element } from "./dom.js";
import { explanationView } from "./explanation.js";
import { download, qrels, run } from "./judgements.js";
import { drawLines, highlightDocument } from "./lines.js";
import { rankingView } from "./results.js";
import { documentView } from "./stored.js";
import { fromAddress, toAddress } from "./state.js";
import { valueInput } from "./values.js";

const CHOICES = ["index", "stage", "left", "right", "hits"];
const dialog = byId("document");
const session = crypto.getRandomValues(new Uint32Array(4)).join("-"); // id of the session in the click log
let service, state, answers, controller, retryTimer, openClick, lastOpened;

const chosenIndex = () => service.indexes.find((index) => index.name === state.index);

async function start() {
  await guarded(start, async () => {
    service = await get("indexes");
    showState();
  });
}

/** Fill in what an address leaves to the service. */
function completed(state) {
  const index = service.indexes.find(({ name }) => name === state.index) ?? service.indexes[0];
  return { ...state, index: index.name, right: state.right || service.reranker, stage: state.stage || index.first_stages[0] };
}

/** Show the state that the address holds. */
function showState() {
  const asked = fromAddress();
  const unknown = asked.index && !service.indexes.some(({ name }) => name === asked.index);
  state = completed(asked);
  fillForm();
  if (unknown) {
    showStart();
    showStatus(`There is no index “${asked.index}” here: choose another.`, "error");
    return;
  }
  if (state.query) search();
  else {
    showStart();
    if (state.doc) open(state.doc, state.side);
  }
}

function fillForm() {
  state = completed(state);
  const index = chosenIndex();
  const options = (id, names, label = (name) => name) =>
    byId(id).replaceChildren(...names.map((name) => element("option", { value: name }, label(name))));
  options("index", service.indexes.map(({ name }) => name));
  options("stage", index.first_stages);
  const rerankers = ["none", ...index.rerankers];
  for (const id of ["left", "right"]) options(id, rerankers, (name) => (name === "none" ? "first stage alone" : name));
  for (const name of CHOICES) byId(name).value = state[name];
  byId("query").value = state.query;
  byId("rank").value = state.rank;
  options("suggestions", index.suggestions);
  fillFilters(index.fields);
}

function fillFilters(fields) {
  // An input shows `NOT type:Letter` as `NOT Letter`.
  const parts = state.filter.map((filter) => /^(AND |NOT )?([^:]*):(.*)$/s.exec(filter) ?? []);
  const values = (field) => parts.filter((part) => part[2] === field).map(([, prefix = "", , value]) => prefix + value);
  const inputs = fields.map((field) => element("label", {}, field,
    element("input", {
      ...valueInput(field, () => state.index), "data-filter": field, value: values(field).join("; "), placeholder: field === "year" ? "2015-2020" : null,
    })));
  const order = element("select", { id: "sort" },
    element("option", { value: "score" }, "best first"), element("option", { value: "date" }, "newest first"));
  order.value = state.sort;
  byId("fields").replaceChildren(...inputs, ...(fields.includes("year") ? [element("label", {}, "order", order)] : []));
  byId("filters").hidden = !fields.length;
  byId("filters").open ||= state.filter.length > 0 || state.sort !== "score";
}

function readForm() {
  const before = state.query;
  for (const name of [...CHOICES, "query", "rank"]) state[name] = byId(name).value;
  if (state.query !== before) state.syntax = "pubmed"; // another query is read anew
  state.sort = byId("sort")?.value ?? "score";
  const values = (input) => input.value.split(";").map((value) => value.trim()).filter(Boolean);
  state.filter = [...document.querySelectorAll("[data-filter]")].flatMap((input) =>
    values(input).map((value) => value.replace(/^(AND |NOT )?/, `$1${input.dataset.filter}:`)));
  state.doc = state.side = "";
}

function showStart() {
  byId("status").replaceChildren();
  byId("results").hidden = true;
  byId("start").hidden = false;
  byId("examples").replaceChildren(...chosenIndex().suggestions.map((text) =>
    element("li", {}, element("button", { dir: "auto", click: () => searchFor(text) }, text))));
  dialog.close();
}

function searchFor(text) {
  byId("query").value = text;
  byId("search").requestSubmit();
}

async function search() {
  controller?.abort();
  const current = (controller = new AbortController());
  byId("start").hidden = true;
  byId("results").classList.add("waiting");
  showStatus("Searching …", "loading");
  await guarded(search, async () => {
    const { hits, sort } = state;
    const parameters = { ...asked(), hits, sort };
    const rank = (reranker) => get(indexPath(state.index, "search"), { ...parameters, reranker }, current.signal);
    const left = await rank(state.left); // not concurrently: each search shows its own times
    const right = await rank(state.right);
    answers = { left, right };
    byId("results").hidden = false;
    for (const name of ["left", "right"])
      byId(`side-${name}`).replaceChildren(...rankingView(answers[name], (docid) => click(docid, name)));
    drawLines();
    for (const name of ["left", "right"]) byId(`run-${name}`).disabled = answers[name].shards !== null; // lacks documents
    const count = `${right.candidates.length} documents on the right`;
    const notes = new Set([left.notes, right.notes].flat().filter(Boolean)); // both sides mostly have the same notes
    const lines = [...notes].map((note) => element("p", { class: "notice" }, note));
    const understood = right.read_as === null ? null : readAs(right);
    byId("status").replaceChildren(element("span", { class: "visually-hidden" }, count), ...[understood, ...lines].filter(Boolean));
    if (state.doc) await open(state.doc, state.side || "right");
    else dialog.close();
  });
  if (current === controller) byId("results").classList.remove("waiting");
}

/** The parameters that say what is searched: the query, how it is read, the filters. */
function asked() {
  const { query, syntax, rank, stage, filter } = state;
  return { query: query.replace(/\s*⏎\s*/g, "\n"), query_syntax: syntax, rank_by: syntax === "plain" ? "" : rank, first_stage: stage, filter };
}

/** How a query was read, with the exact number of documents, and a button that reads it as plain words. */
function readAs({ read_as, matches }) {
  const number = `${matches.toLocaleString("en")} ${matches === 1 ? "document" : "documents"}`;
  return element("p", { class: "understood" }, "Read as ", element("b", { dir: "auto" }, read_as), `: ${number}. `, plainWords());
}

function plainWords() {
  return element("button", { type: "button", id: "plain", click: () => searchAs("plain") }, "Search as plain words");
}

function searchAs(syntax) {
  Object.assign(state, { syntax, doc: "", side: "" });
  if (syntax === "plain") state.rank = byId("rank").value = "";
  toAddress(state);
  search();
}

function click(docid, from) {
  const docids = answers[from].candidates.map((hit) => hit.docid);
  openClick = { query: state.query, shown: docids, clicked: docid, position: docids.indexOf(docid) + 1, session };
  openClick.opened = performance.now();
  open(docid, from);
}

/** When a document closes, send the click that opened it, if the service logs clicks. */
function logClick() {
  if (!service?.clicks || !openClick) return;
  const { opened, ...body } = openClick;
  openClick = undefined;
  send(indexPath(state.index, "click"), { ...body, dwell: (performance.now() - opened) / 1000 });
}

async function open(docid, from) {
  Object.assign(state, { doc: docid, side: from });
  lastOpened = { doc: docid, from };
  toAddress(state, fromAddress().doc === docid); // an address that names the document is no further entry
  // The button stays when the explanation arrives: it has the focus.
  const close = element("button", { class: "close", "aria-label": "Close", click: () => dialog.close() }, "✕");
  const content = element("div", {}, element("h2", { id: "document-title" }, "Explaining …"));
  dialog.replaceChildren(close, content);
  if (!dialog.open) dialog.showModal();
  const stored = (note) => get(indexPath(state.index, `doc/${encodeURIComponent(docid)}`)).then((answer) => documentView(answer, note));
  const explained = () => {
    const parameters = { ...asked(), docid, reranker: state[from] };
    return get(indexPath(state.index, "explain"), parameters).then(explanationView);
  };
  try {
    const view = await (state.query ? explained().catch((error) => {
      if (error.status !== 404) throw error;
      return stored(error.message); // no candidate of the query
    }) : stored());
    if (state.doc === docid) content.replaceChildren(...view);
  } catch (error) {
    const retry = element("button", { click: () => open(docid, from) }, "Try again");
    const title = element("h2", { id: "document-title" }, "No explanation");
    content.replaceChildren(title, element("p", { role: "alert" }, error.message), retry);
  }
}

/** Do work that calls the service; show its errors, with a button that calls `retry`. */
async function guarded(retry, work) {
  clearTimeout(retryTimer);
  try {
    await work();
  } catch (error) {
    if (error.name === "AbortError") return;
    byId("results").hidden = true;
    if (!(error instanceof ServiceError)) console.error(error);
    showError(error, retry);
  }
}

function showError(error, retry) {
  const button = element("button", { click: retry }, "Try again");
  if (error.status === 429) {
    const seconds = error.retryAfter || 1;
    showStatus(`The service is busy. Retrying in ${seconds} s.`, "overload", button);
    retryTimer = setTimeout(retry, 1000 * seconds);
  } else if (error.status === 401) {
    const token = element("input", { type: "password", "aria-label": "Token", autocomplete: "off" });
    const send = (event) => { event.preventDefault(); keepToken(token.value); retry(); };
    const form = element("form", { submit: send }, token, element("button", {}, "Use token"));
    showStatus("This service requires a token.", "error", form);
  } else if (error.status === 400) {
    const strategy = state?.query && state.syntax !== "plain" && error.field === "query";
    showStatus(error.message, "error", ...(strategy ? [plainWords()] : []));
  } else showStatus(error.message, "error", button);
}

function showStatus(text, kind, ...actions) {
  byId("status").replaceChildren(element("p", { class: kind }, text), ...actions);
}

// The lines of a pasted strategy, which a field of one line would join.
byId("query").addEventListener("paste", (event) => {
  const text = event.clipboardData.getData("text");
  if (!text.trim().includes("\n")) return;
  event.preventDefault();
  event.target.setRangeText(text.trim().replace(/\s*\n\s*/g, " ⏎ "), event.target.selectionStart, event.target.selectionEnd, "end");
});
byId("search").addEventListener("submit", (event) => {
  event.preventDefault();
  readForm();
  toAddress(state);
  search();
});
for (const name of CHOICES)
  byId(name).addEventListener("change", () => {
    const query = byId("query").value;
    readForm();
    if (name === "index") Object.assign(state, { stage: "", filter: [], sort: "score" });
    toAddress(state);
    fillForm();
    if (query.trim()) search();
    else showStart();
  });
addEventListener("pagehide", logClick);
dialog.addEventListener("close", () => {
  logClick();
  if (state.doc) {
    Object.assign(state, { doc: "", side: "" });
    if (history.state?.document) history.back(); // a document that was read is no entry of the history
    else toAddress(state, true);
  }
  if (!lastOpened) return;
  const { doc, from } = lastOpened;
  byId(`side-${from}`)?.querySelector(`[data-docid="${CSS.escape(doc)}"] .open`)?.focus();
});

/** Back and forward: where only the open document differs, the rankings stay. */
function goTo() {
  const next = completed(fromAddress());
  const search = (state) => JSON.stringify({ ...state, doc: "", side: "" }, Object.keys(state).sort());
  if (byId("results").hidden || search(next) !== search(state)) return showState();
  const { doc, side } = next;
  if (!doc) {
    Object.assign(state, { doc, side });
    dialog.close();
  } else if (doc !== state.doc) open(doc, side || "right");
}
for (const name of ["left", "right"])
  byId(`run-${name}`).addEventListener("click", () => {
    download(`${answers[name].index}-${name}.run`, run(answers[name]));
  });
byId("qrels").addEventListener("click", () => download(`${state.index}.qrels`, qrels(state.index)));
byId("export").addEventListener("click", () => guarded(() => byId("export").click(), async () => {
  const format = byId("format").value;
  const docids = answers.right.candidates.map((hit) => hit.docid);
  const text = await file(indexPath(state.index, "export"), { docids, format });
  download(`${state.index}.${format === "bibtex" ? "bib" : format}`, text);
}));
for (const name of ["pointerover", "focusin"]) byId("sides").addEventListener(name, highlightDocument);
addEventListener("resize", drawLines);
addEventListener("popstate", goTo);
start();
