// The match matrix as a heat-map: a grid whose cells are walked with the arrow keys, and a line that reads the cell.

import { element } from "./dom.js";

const SHOWN = 40; // document words, at first
const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

export function matrixOf(found) {
  const held = element("div", { class: "matrix" });
  draw(held, found, columns(found, SHOWN));
  return held;
}

/** The places of the document words that match most, in the document's order. */
function columns(found, most) {
  const words = found.document_words;
  const weight = (at) => Math.abs(words[at].contribution ?? 0) * 1e6 + Math.max(...found.matrix.map((row) => row[at]));
  const places = found.matrix[0].map((_, at) => at);
  return places.sort((one, other) => weight(other) - weight(one)).slice(0, most).sort((one, other) => one - other);
}

function draw(held, found, shown) {
  const all = found.matrix[0].length;
  const most = Math.max(...found.matrix.flat().map(Math.abs), 1e-9);
  const pooled = new Set(found.pooled.map(String));
  const reading = element("output", { class: "reading" }, "Point at a cell, or walk with the arrow keys.");
  const rows = found.query_words.map((word, row) =>
    element("tr", {}, element("th", { scope: "row" }, word.text), shown.map((column) => {
      const value = found.matrix[row][column];
      const kept = pooled.has(`${row},${column}`);
      const pair = `${word.text} × ${found.document_words[column].text}`;
      const said = `${pair}: ${found.matrix_name} ${value.toFixed(3)}${kept ? ", kept" : ""}`;
      const read = () => { reading.textContent = said; };
      const cell = element("td", { tabindex: "-1", class: `${value < 0 ? "minus" : "plus"}${kept ? " kept" : ""}`,
        "aria-label": said, mouseenter: read, focus: read });
      cell.style.setProperty("--share", Math.abs(value) / most);
      return cell;
    })));
  rows[0]?.querySelector("td")?.setAttribute("tabindex", "0");
  const head = element("tr", {}, element("td", { class: "corner" }),
    shown.map((column) => element("th", { scope: "col" }, element("span", {}, found.document_words[column].text))));
  const grid = element("table", { role: "grid", "aria-label": `${found.matrix_name} of query words and document words`,
    keydown: (event) => walk(event, rows) }, element("thead", {}, head), element("tbody", {}, rows));
  const more = shown.length < all
    ? element("button", { type: "button", click: () => draw(held, found, columns(found, all)) },
        `Show all ${all} words`)
    : null;
  const parts = [element("div", { class: "scrolled" }, grid), reading, more];
  held.replaceChildren(...parts.filter(Boolean));
}

function walk(event, rows) {
  const step = STEPS[event.key];
  if (!step || event.target.tagName !== "TD") return;
  event.preventDefault();
  const row = rows.findIndex((one) => one.contains(event.target));
  const cells = [...rows[row].querySelectorAll("td")];
  const next = rows[row + step[0]]?.querySelectorAll("td")[cells.indexOf(event.target) + step[1]];
  if (!next) return;
  event.target.setAttribute("tabindex", "-1");
  next.setAttribute("tabindex", "0");
  next.focus();
}
