// The bar of a screening: how many are decided, which documents are listed, files, and the keys.

import { element, number, setOptions } from "./dom.js";
import { exportMenu } from "./exports.js";
import { clearDecisions, countsText, decided, decisions, loadDecisions, saveDecisions } from "./screening.js";

const LISTED = { undecided: "Undecided", all: "All", include: "Included", maybe: "Maybe", exclude: "Excluded" };

/** The elements of the bar. `page`: go(changes) searches, again() searches once more. */
export function screeningBar(state, answer, page) {
  const { index } = state;
  const message = element("p", { role: "alert" });
  const shown = element("select", { change: () => page.go({ screen: shown.value }) });
  setOptions(shown, Object.keys(LISTED), state.screen, (name) => LISTED[name]);
  const here = (answer?.candidates ?? []).filter(({ docid }) => docid in decisions(index)).length;
  const left = answer && state.screen === "undecided" ? answer.total - here : null;
  const next = left > 0 && here === answer.candidates.length
    ? element("button", { type: "button", class: "main", id: "next", click: page.again }, `Next ${Math.min(left, Number(state.hits))} undecided`) : null;
  const load = element("input", { type: "file", accept: ".csv,text/csv", "aria-label": "File of decisions", hidden: true, change: async () => {
    try {
      loadDecisions(index, await load.files[0].text());
      page.again();
    } catch (error) {
      message.textContent = error.message;
    }
  } });
  const guarded = async (work) => {
    try {
      await work();
    } catch (error) {
      message.textContent = error.message;
    }
  };
  const clear = () => {
    if (!confirm("Forget all decisions on this index? Save them first if you need them.")) return;
    clearDecisions(index);
    page.again();
  };
  const files = [
    element("button", { type: "button", id: "save-decisions", click: () => saveDecisions(index) }, "Decisions (CSV)"),
    element("button", { type: "button", id: "load-decisions", click: () => load.click() }, "Load decisions …"),
    element("button", { type: "button", id: "clear-decisions", click: clear }, "Forget all …"),
  ];
  const included = () => ({ docids: decided(index, "include") });
  return [
    element("div", { class: "tools" },
      element("label", {}, "List ", shown),
      element("span", { class: "counts" }, left === null ? countsText(index) : `${number(left)} left · ${countsText(index)}`),
      decided(index, "include").length ? exportMenu("Included as", index, included, guarded) : null,
      element("span", { class: "files" }, files), load, next),
    message,
    element("p", { class: "keys" }, "Keys: ", ...["j", "k"].map((key) => element("kbd", {}, key)), " next and previous, ",
      element("kbd", {}, "i"), " include, ", element("kbd", {}, "m"), " maybe, ", element("kbd", {}, "e"), " exclude, ", element("kbd", {}, "u"), " undo. Decisions stay in this browser."),
  ];
}
