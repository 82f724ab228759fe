// Screening: decisions on documents, kept in the browser by index, and saved as a file that can be loaded again.

import { number, element } from "./dom.js";
import { download } from "./exports.js";

export const DECISIONS = { include: "Include", maybe: "Maybe", exclude: "Exclude" };
const COUNTED = { include: "included", maybe: "maybe", exclude: "excluded" };
const KEYS = { i: "include", m: "maybe", e: "exclude", u: undefined };
const key = (index) => `rerank_plugin screening ${index}`;

const made = []; // what a key takes back, the last at the end: {index, docid, before}
let index, all; // the decisions of the index that was read last: {docid: {decision, title, decided}}

/** All decisions of an index. */
export function decisions(name) {
  if (index !== name) [index, all] = [name, JSON.parse(localStorage.getItem(key(name)) ?? "{}")];
  return all;
}

export const decisionOf = (name, docid) => decisions(name)[docid]?.decision;

/** The ids with a decision; with any, if none is given. */
export function decided(name, decision = undefined) {
  return Object.entries(decisions(name)).filter(([, one]) => !decision || one.decision === decision).map(([docid]) => docid);
}

/** Keep a decision, and tell the page; undefined removes it. */
export function decide(name, docid, title, decision) {
  const of = decisions(name);
  made.push({ index: name, docid, before: of[docid] });
  if (decision) of[docid] = { decision, title, decided: new Date().toISOString().slice(0, 19) + "Z" };
  else delete of[docid];
  keep(name);
}

/** Take back the last decision on an index; returns the id of its document, undefined without one. */
function undo(name) {
  const place = made.findLastIndex((one) => one.index === name);
  if (place < 0) return undefined;
  const [{ docid, before }] = made.splice(place, 1);
  if (before) decisions(name)[docid] = before;
  else delete decisions(name)[docid];
  keep(name);
  return docid;
}

function keep(name) {
  localStorage.setItem(key(name), JSON.stringify(decisions(name)));
  for (const row of document.querySelectorAll("[data-docid]")) {
    const decision = decisionOf(name, row.dataset.docid);
    if (decision) row.dataset.decision = decision;
    else delete row.dataset.decision;
  }
  for (const button of document.querySelectorAll("[data-decide]"))
    button.setAttribute("aria-pressed", String(decisionOf(name, button.closest("[data-of]").dataset.of) === button.dataset.decide));
  document.dispatchEvent(new Event("decided"));
}

addEventListener("storage", (event) => { // another tab has decided
  if (event.key !== key(index)) return;
  const name = index;
  index = undefined;
  decisions(name);
  document.dispatchEvent(new Event("decided"));
});

/** Buttons for the three decisions; pressing a pressed one removes the decision. */
export function decisionButtons(name, docid, title) {
  const button = (decision) => element("button", {
    type: "button", "data-decide": decision, "aria-pressed": String(decisionOf(name, docid) === decision),
    "aria-label": `${DECISIONS[decision]}: ${title}`,
    click: () => decide(name, docid, title, decisionOf(name, docid) === decision ? undefined : decision),
  }, DECISIONS[decision]);
  return element("span", { class: "deciding", role: "group", "data-of": docid }, Object.keys(DECISIONS).map(button));
}

/** Decide by a key: the document that `current()` gives, {docid, title}, after which `next()` goes on; or undo the last
 * decision, and go `back(docid)`. */
export function decideByKey(name, pressed, current, next, back) {
  if (!(pressed in KEYS)) return false;
  const undone = pressed === "u" && undo(name);
  if (undone) {
    back(undone);
    return true;
  }
  const one = current();
  if (!one) return true;
  decide(name, one.docid, one.title, KEYS[pressed]);
  if (KEYS[pressed]) next();
  return true;
}

/** How many documents have each decision. */
export function countsText(name) {
  const count = (decision) => `${number(decided(name, decision).length)} ${COUNTED[decision]}`;
  return Object.keys(DECISIONS).map(count).join(" · ");
}

/** The documents with a decision, the last decided first. */
export function decidedView(name, decision, addressOf, open) {
  const rows = Object.entries(decisions(name)).filter(([, one]) => one.decision === decision);
  rows.sort(([, a], [, b]) => (a.decided < b.decided ? 1 : -1));
  if (!rows.length) return element("p", { class: "notice" }, `No document is ${COUNTED[decision]} yet.`);
  return element("ol", { class: "hits" }, rows.map(([docid, { title }], place) =>
    element("li", { "data-docid": docid, "data-title": title, "data-decision": decision },
      element("span", { class: "rank", "aria-hidden": "true" }, String(place + 1)),
      element("div", {},
        element("h3", { dir: "auto" },
          element("a", { class: "open", href: addressOf(docid), "aria-haspopup": "dialog", click: (event) => open(event, docid) }, title)),
        element("div", { class: "below" }, decisionButtons(name, docid, title))))));
}

const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

/** Save all decisions as CSV. */
export function saveDecisions(name) {
  const rows = Object.entries(decisions(name)).map(([docid, one]) => [docid, one.decision, one.title, one.decided]);
  const lines = [["docid", "decision", "title", "decided"], ...rows].map((row) => row.map(quoted).join(","));
  download(`${name}-screening.csv`, `${lines.join("\n")}\n`);
}

/** Add the decisions of a saved file; of a document decided here, too, the later one stays. Returns their number. */
export function loadDecisions(name, text) {
  const rows = [...text.matchAll(/("(?:[^"]|"")*"|[^,\n\r]*)(,|\r?\n|$)/g)].reduce((rows, [, cell, end]) => {
    rows.at(-1).push(cell.startsWith('"') ? cell.slice(1, -1).replaceAll('""', '"') : cell);
    if (end !== ",") rows.push([]);
    return rows;
  }, [[]]);
  const [names, ...entries] = rows.filter((row) => row.length > 1);
  const place = (column) => (names ?? []).indexOf(column);
  if (place("docid") < 0 || place("decision") < 0) throw new Error("The file is none of saved decisions: it has no columns docid and decision.");
  const of = decisions(name);
  let read = 0;
  for (const row of entries) {
    const [docid, decision, title, when] = ["docid", "decision", "title", "decided"].map((column) => row[place(column)] ?? "");
    if (!docid || !(decision in DECISIONS)) continue;
    read += 1;
    if (!of[docid] || of[docid].decided <= when) of[docid] = { decision, title: title || docid, decided: when };
  }
  keep(name);
  return read;
}

/** Forget all decisions on an index. */
export function clearDecisions(name) {
  for (const docid of Object.keys(decisions(name))) delete all[docid];
  made.length = 0;
  keep(name);
}
