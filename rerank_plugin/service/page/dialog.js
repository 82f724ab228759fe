// The dialog of the open document: opening, going on to the next one, closing; its entry in the history; the click log.

import { indexPath, send } from "./api.js";
import { byId, element } from "./dom.js";
import { documentView } from "./document.js";
import { fromAddress } from "./state.js";

const dialog = byId("document");
const session = crypto.getRandomValues(new Uint32Array(4)).join("-"); // id of the session in the click log
let page; // what the page gives: state(), rankings, clicks, and what to do
let clicked, last; // the open click, and the last document that was opened
let isByPage = false; // whether the page closes the dialog, not its reader

/** `given`: state(), shown(side) the docids of a list, rank(docid, side), pipeline(side), options(side) of
 * documentView, clicks(), titled(title), keep(replace) the state in the address, focusHit(docid, side). */
export function setUpDialog(given) {
  page = given;
  dialog.addEventListener("close", closed);
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close(); // beside its content
  });
  addEventListener("pagehide", logClick);
}

export const isOpen = () => dialog.open;

/** Close the dialog for the page, whose address says so already. */
export function closeDialog() {
  isByPage = dialog.open;
  dialog.close();
}

/** Open a document by a click on a hit; one with Ctrl, Shift or the middle button is the browser's. */
export function clickDocument(event, docid, side = "") {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  open(docid, side);
}

/** Open a document, as an entry of the history unless the address has one already. */
export async function open(docid, side = "") {
  const state = page.state();
  logClick();
  const shown = page.shown(side);
  if (shown.includes(docid))
    clicked = { query: state.query, shown, clicked: docid, position: page.rank(docid, side), session, opened: performance.now() };
  Object.assign(state, { doc: docid, side });
  last = { docid, side };
  page.keep(Boolean(fromAddress().doc)); // the next document is no further entry
  // The buttons stay when the document arrives: one of them has the focus.
  if (!dialog.open) {
    const move = (step, label, sign) => element("button", { class: "step", "data-step": step, "aria-label": label, title: label, click: () => goOn(step) }, sign);
    dialog.replaceChildren(
      element("div", { class: "bar-of-document" }, move(-1, "Previous document", "‹"), move(1, "Next document", "›"),
        element("button", { class: "close", "aria-label": "Close", click: () => dialog.close() }, "✕")),
      element("div", { id: "document-content" }));
    dialog.showModal();
    dialog.querySelector(".close").focus();
  }
  const place = shown.indexOf(docid);
  for (const button of dialog.querySelectorAll(".step"))
    button.disabled = place < 0 || shown[place + Number(button.dataset.step)] === undefined;
  const content = byId("document-content");
  content.replaceChildren(element("h2", { id: "document-title" }, "Opening …"));
  dialog.scrollTop = 0;
  try {
    const { title, view } = await documentView(state, page.pipeline(side), page.options(side));
    if (state.doc !== docid || !dialog.open) return;
    content.replaceChildren(...view);
    page.titled(title);
  } catch (error) {
    const retry = element("button", { click: () => open(docid, side) }, "Try again");
    content.replaceChildren(element("h2", { id: "document-title" }, "No document"), element("p", { role: "alert" }, error.message), retry);
  }
}

/** Open the next (1) or the previous (-1) document of the list; false at its end. */
export function goOn(by) {
  const shown = page.shown(last.side);
  const next = shown[shown.indexOf(last.docid) + by];
  if (next === undefined || !shown.includes(last.docid)) return false;
  open(next, last.side);
  return true;
}

/** When a document closes, send the click that opened it, if the service logs clicks. */
function logClick() {
  if (!page.clicks() || !clicked) return;
  const { opened, ...body } = clicked;
  clicked = undefined;
  send(indexPath(page.state().index, "click"), { ...body, dwell: (performance.now() - opened) / 1000 });
}

function closed() {
  if (dialog.open) return; // again, before this event
  const state = page.state();
  const keepsEntry = isByPage;
  isByPage = false;
  logClick();
  page.titled("");
  if (state.doc && !keepsEntry) {
    Object.assign(state, { doc: "", side: "" });
    if (history.state?.document) history.back(); // a document that was read is no entry of the history
    else page.keep(true);
  }
  if (last) page.focusHit(last.docid, last.side);
}
