// The main module: reads the address, calls the service, shows its answers.

import { ServiceError, get, indexPath, keepToken, post, searchBody } from "./api.js";
import { compare, defaultSides, fillSides, judgmentButtons, pipelineOf } from "./comparison.js";
import { drawLines } from "./lines.js";
import { clickDocument, closeDialog, goOn, isOpen, open, setUpDialog } from "./dialog.js";
import { byId, element, number, setOptions } from "./dom.js";
import { exportMenu } from "./exports.js";
import { chips, filterPanel, keptLists } from "./filters.js";
import { foundText, listView, readAs } from "./list.js";
import { decideByKey, decided, decidedView } from "./screening.js";
import { screeningBar } from "./screening_bar.js";
import { addressOf, asked, fromAddress, toAddress } from "./state.js";

const wide = matchMedia("(min-width: 60rem)");
const NAME = "rerank_plugin";
const DEPTH = 500; // as in base/settings.py, until an answer of the service says its own
const EXPANSIONS = {
  "": "none", spellings: "spelling variants", phrases: "hyphenated names as phrases", "spellings,phrases": "spellings and phrases",
  subjects: "MeSH headings and keywords", mesh: "synonyms of MeSH headings",
};
const SORTS = { score: "Best match", date: "Newest first", like: "Like the included" };
let service, state, controller, retryTimer;
let answers = {}; // by side; the list's is ""
let depth = DEPTH;

const chosenIndex = () => service.indexes.find((index) => index.name === state.index);
const comparing = () => state.view === "compare";

async function start() {
  await guarded(start, async () => {
    service = await get("indexes");
    show();
  });
}

/** Fill in what an address leaves to the service. */
function completed(state) {
  const index = service.indexes.find(({ name }) => name === state.index) ?? service.indexes[0];
  const { first_stage, reranker } = index.recommended;
  const whole = { ...state, index: index.name, stage: state.stage || first_stage, reranker: state.reranker || reranker };
  const sides = defaultSides(index, whole);
  return { ...whole, left: state.left || sides.left, right: state.right || sides.right };
}

/** The state without what an address leaves to the service. */
function shortened(state) {
  const { first_stage, reranker } = chosenIndex().recommended;
  const defaults = { index: service.indexes[0].name, stage: first_stage, reranker, ...defaultSides(chosenIndex(), state) };
  const changed = Object.entries(defaults).map(([name, value]) => [name, state[name] === value ? "" : state[name]]);
  return { ...state, ...Object.fromEntries(changed), ...(comparing() ? {} : { left: "", right: "" }) };
}

/** Search with changes of the state: another entry of the history. */
function go(changes) {
  state = completed({ ...shortened(state), page: "1", doc: "", side: "", ...changes });
  toAddress(shortened(state));
  show();
}

/** Show the state: the form, and what it asks for. */
function show() {
  const unknown = state === undefined && service && fromAddress().index;
  if (state === undefined) state = completed(fromAddress());
  document.body.classList.toggle("comparing", comparing());
  fillForm();
  if (!state.doc && isOpen()) closeDialog();
  if (unknown && !service.indexes.some(({ name }) => name === unknown)) {
    showStart();
    showStatus(service.refused[unknown] ?? `There is no index “${unknown}” here: choose another.`, "error");
  } else if (state.query || state.filter.length || state.screen) search();
  else {
    showStart();
    if (state.doc) open(state.doc);
  }
}

function fillForm() {
  const index = chosenIndex();
  setOptions(byId("index"), service.indexes.map(({ name }) => name), state.index);
  byId("choose-index").hidden = service.indexes.length < 2;
  setOptions(byId("stage"), index.first_stages, state.stage);
  setOptions(byId("reranker"), [...new Set(["none", ...index.rerankers, state.reranker])], state.reranker, (name) => (name === "none" ? "no reranker" : name));
  setOptions(byId("expand"), Object.keys({ ...EXPANSIONS, [state.expand]: "" }), state.expand, (name) => EXPANSIONS[name] ?? name);
  const sorts = Object.keys(SORTS).filter((name) => (name === "date" ? index.fields.includes("year") : name === "score" || state.screen === "undecided"));
  setOptions(byId("sort"), sorts, sorts.includes(state.sort) ? state.sort : "score", (name) => SORTS[name]);
  byId("sort").hidden = sorts.length < 2;
  fillSides(index, state, go);
  for (const name of ["query", "rank", "hits"]) byId(name).value = state[name];
  grow();
  const other = comparing() ? "" : "compare";
  byId("switch").replaceChildren(...(comparing() ? ["One list"] : ["Compare", element("span", { class: "wide" }, " rankings")]));
  byId("switch").href = addressOf(shortened({ ...state, view: other, screen: "", doc: "", side: "" }));
  byId("screen").setAttribute("aria-pressed", String(Boolean(state.screen)));
  titled("");
}

/** The title of the tab: the open document, or the query. */
function titled(title) {
  document.title = [title || state.query.replace(/\s+/g, " ").slice(0, 80) || "Search", NAME].join(" · ");
}

function showStart() {
  answers = {};
  byId("status").replaceChildren();
  byId("results").hidden = true;
  byId("start").hidden = false;
  byId("examples").replaceChildren(...chosenIndex().suggestions.map((text) =>
    element("li", {}, element("a", { dir: "auto", href: addressOf(shortened({ ...state, query: text, doc: "", side: "" })) }, text))));
  closeDialog();
}

async function search() {
  controller?.abort();
  const current = (controller = new AbortController());
  byId("start").hidden = true;
  byId("results").classList.add("waiting");
  byId("chips").replaceChildren(...chips(state, changeFilters)); // at once: the next click is for what is set now
  if (byId("results").hidden) showStatus("Searching …", "loading");
  await guarded(search, async () => {
    const found = comparing() ? await compare(state, current.signal, clickDocument) : await list(current.signal);
    if (current !== controller) return;
    answers = found;
    byId("results").hidden = false;
    byId("list").hidden = comparing();
    byId("comparison").hidden = !comparing();
    if (comparing()) drawLines();
    const shown = Object.values(answers);
    showNotes(shown);
    showPanel();
    if (state.doc) await open(state.doc, state.side);
    else closeDialog();
  });
  if (current === controller) byId("results").classList.remove("waiting");
}

/** How the query was read, and the notes: both sides mostly have the same. */
function showNotes(shown) {
  const notes = new Set(shown.flatMap((answer) => answer.notes));
  const understood = shown.at(-1);
  const actions = { plain: () => go({ syntax: "plain", rank: "" }), rankBy: askRank };
  byId("status").replaceChildren(
    element("span", { class: "visually-hidden" }, byId("found").textContent),
    ...[...notes].map((note) => element("p", { class: "notice" }, note)),
    ...(understood?.did_you_mean ? [element("p", { class: "meant" }, "Did you mean ",
      element("a", { dir: "auto", href: addressOf(shortened({ ...state, query: understood.did_you_mean, page: "1", doc: "" })) }, understood.did_you_mean), understood.did_you_mean.endsWith("?") ? "" : "?")] : []),
    ...(understood && understood.read_as !== null ? [readAs(understood, state, actions)] : []));
}

let filtering = false; // whether somebody chooses filters, of which there may be more

function changeFilters(update) {
  filtering = true;
  go({ filter: update(state.filter) });
}

function showPanel() {
  if (comparing() || !(wide.matches || filtering)) byId("panel").open = false; // what is found is below it
  filtering = false;
  const { fields } = chosenIndex();
  byId("panel").hidden = !fields.length;
  const panel = byId("filters"), typing = panel.querySelector("[data-filter]:focus");
  if (typing && typing.value !== typing.defaultValue) { // what somebody types meanwhile stays
    typing.addEventListener("blur", () => setTimeout(showPanel), { once: true });
    return;
  }
  const selection = [typing?.selectionStart, typing?.selectionEnd];
  const before = panel.querySelector("[data-value]:focus")?.dataset.value;
  panel.replaceChildren(...keptLists(panel, filterPanel(state, fields, changeFilters)), doneButton());
  panel.querySelector(`[data-value="${CSS.escape(before ?? "")}"]`)?.focus({ preventScroll: true });
  const typed = typing && panel.querySelector(`[data-filter="${typing.dataset.filter}"]`);
  typed?.focus();
  typed?.setSelectionRange(...selection); // what the next key replaces
  byId("panel").querySelector("summary").textContent = state.filter.length ? `Filters (${state.filter.length})` : "Filters";
}

/** The button that folds the filters on a phone. */
function doneButton() {
  const done = () => {
    byId("panel").open = false;
    byId("found").focus();
  };
  return element("button", { type: "button", class: "done main", click: done }, "Show the list");
}

/** The parameters of the list's search. */
function listParameters() {
  const hits = Number(state.hits);
  const offset = state.screen === "undecided" ? 0 : (Number(state.page) - 1) * hits;
  const sort = state.sort === "like" ? "score" : state.sort;
  return { ...asked(state), first_stage: state.stage, reranker: state.reranker, expand: state.expand, sort, hits: Math.max(1, Math.min(hits, depth - offset)), offset };
}

/** Search and show the list; returns its answer under the name of no side. */
async function list(signal) {
  const stored = ["include", "maybe", "exclude"].includes(state.screen);
  let answer = null;
  if (!stored && (state.query || state.filter.length)) answer = await answerOf(listParameters(), signal);
  if (answer) depth = Math.max(answer.depth, answer.total);
  byId("found").textContent = answer ? foundText(answer, state) : "";
  byId("any-word").textContent = "";
  const opened = (event, docid) => clickDocument(event, docid);
  byId("hit-list").replaceChildren(...(answer ? listView(answer, state, opened)
    : [decidedView(state.index, state.screen, (doc) => addressOf(shortened({ ...state, doc })), opened)]));
  byId("screening").hidden = !state.screen;
  if (state.screen) byId("screening").replaceChildren(...screeningBar(state, answer, { go, guarded, again: search }));
  const whole = () => ({ search: searchBody({ ...listParameters(), hits: 1, offset: 0 }) });
  byId("export").replaceChildren(...(answer?.total && !state.screen ? [exportMenu("Export", state.index, whole, guardedOnce)] : []));
  if (answer && !state.screen && answer.matches === null && answer.total) countAnyWord();
  return answer ? { "": answer } : {};
}

async function answerOf(parameters, signal) {
  if (state.screen !== "undecided") return get(indexPath(state.index, "search"), parameters, signal);
  const body = { search: searchBody(parameters), decided: decided(state.index), included: state.sort === "like" ? decided(state.index, "include") : [] };
  return (await post(indexPath(state.index, "screening"), body, signal)).json();
}

/** Of plain words: how many documents have any of them, which is counted after the list is shown. */
async function countAnyWord() {
  const { query, query_syntax, filter } = asked(state);
  const before = controller;
  const { documents } = await get(indexPath(state.index, "count"), { query, query_syntax, filter }).catch(() => ({}));
  if (before === controller && documents !== undefined)
    byId("any-word").textContent = `${number(documents)} ${documents === 1 ? "document has" : "documents have"} any of the words`;
}

function askRank() {
  byId("panel").open = byId("ranking").open = true;
  byId("rank").focus();
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

/** Do work beside the list, which stays; show its errors above it. */
async function guardedOnce(work) {
  try {
    await work();
  } catch (error) {
    showStatus(error.message, "error");
    scrollTo(0, 0);
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
  } else if (error.status === 400 || error.status === 422) {
    const isStrategy = state?.query && state.syntax !== "plain" && error.field?.endsWith("query");
    showStatus(error.message, "error", ...(isStrategy ? [element("button", { type: "button", id: "plain", click: () => go({ syntax: "plain", rank: "" }) }, "Search as plain words")] : []));
    if (state?.filter.length) byId("status").append(...chips(state, changeFilters));
  } else showStatus(error.message, "error", button);
}

function showStatus(text, kind, ...actions) {
  byId("status").replaceChildren(element("p", { class: kind }, text), ...actions);
}

/** The field of the query has as many lines as a strategy; with none of them a single one. */
function grow() {
  const query = byId("query");
  query.style.height = "auto";
  query.style.height = `${query.scrollHeight + query.offsetHeight - query.clientHeight}px`;
}

function submit() {
  const query = byId("query").value.trim();
  if (!query && !state.filter.length) return;
  go({ query, ...(query === state.query ? {} : { syntax: "pubmed" }), rank: byId("rank").value.trim() });
}

byId("query").addEventListener("input", grow);
byId("query").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  byId("search").requestSubmit();
});
byId("search").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
byId("index").addEventListener("change", () => go({ index: byId("index").value, stage: "", reranker: "", left: "", right: "", filter: [], sort: "score", screen: "" }));
for (const name of ["stage", "reranker", "expand", "hits", "sort"])
  byId(name).addEventListener("change", () => go({ [name]: byId(name).value }));
byId("rank").addEventListener("change", () => go({ rank: byId("rank").value.trim() }));
byId("screen").addEventListener("click", () => go({ screen: state.screen ? "" : "undecided", sort: state.sort === "like" ? "score" : state.sort }));

/** Links of the page to its own addresses change what is shown without loading the page again. */
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='?']");
  if (!link || event.defaultPrevented || event.ctrlKey || event.metaKey || event.shiftKey || event.button || !service) return;
  event.preventDefault();
  history.pushState({ document: false }, "", link.href);
  showAddress();
  scrollTo(0, 0);
  if (link.dataset.page !== undefined) byId("found").focus({ preventScroll: true });
});

/** Show what the address says; where only the open document differs, the list stays. */
function showAddress() {
  const next = completed(fromAddress());
  const list = (state) => JSON.stringify({ ...state, doc: "", side: "" }, Object.keys(state).sort());
  if (byId("results").hidden || list(next) !== list(state)) {
    state = undefined;
    show();
  } else if (!next.doc) {
    Object.assign(state, { doc: "", side: "" });
    closeDialog();
  } else if (next.doc !== state.doc) open(next.doc, next.side);
}

addEventListener("popstate", () => service && showAddress());

const hitOf = (docid, side) => byId(side ? `side-${side}` : "hit-list").querySelector(`[data-docid="${CSS.escape(docid)}"]`);

setUpDialog({
  state: () => state,
  shown: (side) => (answers[side]?.candidates ?? []).map((hit) => hit.docid),
  rank: (docid, side) => answers[side].candidates.find((hit) => hit.docid === docid).rank,
  pipeline: (side) => (side ? pipelineOf(state[side]) : { first_stage: state.stage, reranker: state.reranker }),
  options: (side) => ({ explained: comparing(), buttons: (title) => (side && answers[side] ? [judgmentButtons(answers[side], state.doc, title)] : []) }),
  clicks: () => service?.clicks,
  titled,
  keep: (replace) => toAddress(shortened(state), replace),
  focusHit: (docid, side) => hitOf(docid, side)?.querySelector(".open").focus(),
});

/** The hit that keys act on: the one with the focus, or else the first. */
function currentHit() {
  return document.activeElement?.closest("[data-docid]") ?? byId("hit-list").querySelector("[data-docid]:not([data-decision])");
}

function moveTo(step) {
  const rows = [...byId("hit-list").querySelectorAll("[data-docid]")];
  const focused = document.activeElement?.closest("[data-docid]");
  const row = rows[focused ? rows.indexOf(focused) + step : 0] ?? null;
  row?.querySelector(".open").focus({ preventScroll: true });
  row?.scrollIntoView({ block: "nearest" });
  return row;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !state || event.target.closest("input, textarea, select, [role=grid]")) return;
  const used = isOpen() ? keyOfDocument(event.key) : keyOfList(event.key);
  if (used) event.preventDefault();
});

function keyOfDocument(key) {
  if (key === "j" || key === "k") return goOn(key === "j" ? 1 : -1) || true;
  if (!state.screen) return false;
  const title = byId("document-title").textContent;
  return decideByKey(state.index, key, () => ({ docid: state.doc, title: hitOf(state.doc, "")?.dataset.title ?? title }), () => goOn(1), open);
}

function keyOfList(key) {
  if (key === "/") {
    byId("query").focus();
    byId("query").select();
    return true;
  }
  if (key === "j" || key === "k") return Boolean(moveTo(key === "j" ? 1 : -1));
  if (!state.screen) return false;
  const row = currentHit();
  return decideByKey(state.index, key, () => row && { docid: row.dataset.docid, title: row.dataset.title }, () => {
    row.querySelector(".open").focus({ preventScroll: true });
    moveTo(1);
  }, (docid) => hitOf(docid, "")?.querySelector(".open").focus());
}

document.addEventListener("decided", () => {
  if (state?.screen && !byId("screening").hidden) byId("screening").replaceChildren(...screeningBar(state, answers[""] ?? null, { go, guarded, again: search }));
});

byId("panel").open = wide.matches;
wide.addEventListener("change", () => { byId("panel").open = wide.matches; });
start();
