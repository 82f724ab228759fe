// Puts the page together: reads the address, asks the service, shows what it answers.

import { Refusal, get, indexPath, keepToken, send } from "./api.js";
import { byId, element } from "./dom.js";
import { explanation } from "./explanation.js";
import { download, qrels, run } from "./judgements.js";
import { drawLines, followDocument } from "./lines.js";
import { side } from "./results.js";
import { fromAddress, toAddress } from "./state.js";

const CHOICES = ["index", "stage", "left", "right", "hits"];
const dialog = byId("document");
const session = crypto.getRandomValues(new Uint32Array(4)).join("-"); // of clicks, where they are logged
let served, state, shown, asking, retrying, clicked;

const chosenIndex = () => served.indexes.find((one) => one.name === state.index) ?? served.indexes[0];

async function start() {
  await guarded(start, async () => {
    served = await get("indexes");
    showState();
  });
}

/** Show all that the address says. */
function showState() {
  state = fromAddress();
  fillForm();
  if (state.query) search();
  else showStart();
}

function fillForm() {
  const index = chosenIndex();
  state.index = index.name;
  state.right ||= served.reranker;
  state.stage ||= index.first_stages[0];
  const options = (id, names, called = (name) => name) =>
    byId(id).replaceChildren(...names.map((name) => element("option", { value: name }, called(name))));
  options("index", served.indexes.map((one) => one.name));
  options("stage", index.first_stages);
  const rerankers = ["none", ...index.rerankers];
  for (const id of ["left", "right"]) options(id, rerankers, (name) => (name === "none" ? "first stage alone" : name));
  for (const name of CHOICES) byId(name).value = state[name];
  byId("query").value = state.query;
  options("suggestions", index.suggestions);
  fillFilters(index.fields);
}

function fillFilters(fields) {
  const of = (field) => state.filter.filter((one) => one.startsWith(`${field}:`));
  const values = (field) => of(field).map((one) => one.slice(field.length + 1));
  const inputs = fields.map((field) => element("label", {}, field,
    element("input", {
      "data-filter": field, value: values(field).join("; "), placeholder: field === "year" ? "2015-2020" : null,
    })));
  const order = element("select", { id: "sort" },
    element("option", { value: "score" }, "best first"), element("option", { value: "date" }, "newest first"));
  order.value = state.sort;
  byId("fields").replaceChildren(...inputs, ...(fields.includes("year") ? [element("label", {}, "order", order)] : []));
  byId("filters").hidden = !fields.length;
  byId("filters").open ||= state.filter.length > 0 || state.sort !== "score";
}

function readForm() {
  for (const name of [...CHOICES, "query"]) state[name] = byId(name).value;
  state.sort = byId("sort")?.value ?? "score";
  const values = (input) => input.value.split(";").map((value) => value.trim()).filter(Boolean);
  state.filter = [...document.querySelectorAll("[data-filter]")].flatMap((input) =>
    values(input).map((value) => `${input.dataset.filter}:${value}`));
  state.doc = state.side = "";
}

function showStart() {
  byId("status").replaceChildren();
  byId("results").hidden = true;
  byId("start").hidden = false;
  byId("examples").replaceChildren(...chosenIndex().suggestions.map((text) =>
    element("li", {}, element("button", { dir: "auto", click: () => ask(text) }, text))));
  dialog.close();
}

function ask(text) {
  byId("query").value = text;
  byId("search").requestSubmit();
}

async function search() {
  asking?.abort();
  const mine = (asking = new AbortController());
  byId("start").hidden = true;
  byId("results").classList.add("waiting");
  say("Searching …", "loading");
  await guarded(search, async () => {
    const { query, hits, stage, filter, sort } = state;
    const asked = { query, hits, first_stage: stage, filter, sort };
    const one = (reranker) => get(indexPath(state.index, "search"), { ...asked, reranker }, mine.signal);
    const left = await one(state.left); // one after the other, so that the times of each are its own
    const right = await one(state.right);
    shown = { left, right };
    byId("results").hidden = false;
    for (const name of ["left", "right"])
      byId(`side-${name}`).replaceChildren(...side(shown[name], (docid) => click(docid, name)));
    drawLines();
    const found = `${right.candidates.length} documents on the right`;
    const notes = new Set([left.notes, right.notes].flat().filter(Boolean)); // both sides mostly say the same
    const lines = [...notes].map((note) => element("p", { class: "notice" }, note));
    byId("status").replaceChildren(element("span", { class: "unseen" }, found), ...lines);
    if (state.doc) await open(state.doc, state.side || "right");
    else dialog.close();
  });
  if (mine === asking) byId("results").classList.remove("waiting");
}

function click(docid, from) {
  const ids = shown[from].candidates.map((one) => one.docid);
  clicked = { query: state.query, shown: ids, clicked: docid, position: ids.indexOf(docid) + 1, session };
  clicked.opened = performance.now();
  open(docid, from);
}

/** Where clicks are logged, send the one that opened the document which is closed now. */
function logClick() {
  if (!served.clicks || !clicked) return;
  const { opened, ...found } = clicked;
  clicked = undefined;
  send(indexPath(state.index, "click"), { ...found, dwell: (performance.now() - opened) / 1000 });
}

async function open(docid, from) {
  Object.assign(state, { doc: docid, side: from });
  toAddress(state);
  const close = element("button", { class: "close", "aria-label": "Close", click: () => dialog.close() }, "✕");
  dialog.replaceChildren(close, element("h2", { id: "document-title" }, "Explaining …"));
  if (!dialog.open) dialog.showModal();
  try {
    const asked = { query: state.query, docid, reranker: state[from], first_stage: state.stage, filter: state.filter };
    const found = await get(indexPath(state.index, "explain"), asked);
    if (state.doc === docid) dialog.replaceChildren(close, ...explanation(found));
  } catch (error) {
    const again = element("button", { click: () => open(docid, from) }, "Try again");
    const title = element("h2", { id: "document-title" }, "No explanation");
    dialog.replaceChildren(close, title, element("p", { role: "alert" }, error.message), again);
  }
}

/** Do what asks the service; show what it refuses, and offer to `again`. */
async function guarded(again, work) {
  clearTimeout(retrying);
  try {
    await work();
  } catch (error) {
    if (error.name === "AbortError") return;
    byId("results").hidden = true;
    if (!(error instanceof Refusal)) console.error(error);
    showRefusal(error, again);
  }
}

function showRefusal(error, again) {
  const button = element("button", { click: again }, "Try again");
  if (error.status === 429) {
    const seconds = error.seconds || 1;
    say(`The service is busy. It is asked again in ${seconds} s.`, "overload", button);
    retrying = setTimeout(again, 1000 * seconds);
  } else if (error.status === 401) {
    const token = element("input", { type: "password", "aria-label": "Token", autocomplete: "off" });
    const send = (event) => { event.preventDefault(); keepToken(token.value); again(); };
    const form = element("form", { submit: send }, token, element("button", {}, "Use it"));
    say("This service wants a token.", "error", form);
  } else say(error.message, "error", ...(error.status === 400 ? [] : [button]));
}

function say(text, kind, ...actions) {
  byId("status").replaceChildren(element("p", { class: kind }, text), ...actions);
}

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
  if (!state.doc) return;
  const { doc, side: from } = state;
  Object.assign(state, { doc: "", side: "" });
  toAddress(state);
  byId(`side-${from}`)?.querySelector(`[data-docid="${CSS.escape(doc)}"] .open`)?.focus();
});
for (const name of ["left", "right"])
  byId(`run-${name}`).addEventListener("click", () => download(`${shown[name].index}-${name}.run`, run(shown[name])));
byId("qrels").addEventListener("click", () => download(`${state.index}.qrels`, qrels(state.index)));
for (const name of ["pointerover", "focusin"]) byId("sides").addEventListener(name, followDocument);
addEventListener("resize", drawLines);
addEventListener("popstate", showState);
start();
