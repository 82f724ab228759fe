// Lines that join the ranks of a document on both sides; if only one side shows it, the line comes from below.

import { byId, svgElement } from "./dom.js";

export function drawLines() {
  const svg = byId("lines");
  const frame = svg.getBoundingClientRect();
  const elements = (side) => [...byId(side).querySelectorAll("[data-docid]")];
  const rows = (side) => new Map(elements(side).map((row) => [row.dataset.docid, row]));
  const middle = (row) => {
    const box = row.getBoundingClientRect();
    return box.top + Math.min(box.height / 2, 40) - frame.top;
  };
  const [left, right, half] = [rows("side-left"), rows("side-right"), frame.width / 2];
  const lines = [];
  for (const docid of new Set([...left.keys(), ...right.keys()])) {
    const both = left.has(docid) && right.has(docid);
    const from = left.has(docid) ? middle(left.get(docid)) : frame.height;
    const to = right.has(docid) ? middle(right.get(docid)) : frame.height;
    const direction = Math.abs(to - from) < 8 ? "same" : to < from ? "up" : "down";
    const d = `M0 ${from}C${half} ${from} ${half} ${to} ${frame.width} ${to}`;
    lines.push(svgElement("path", { d, class: both ? direction : `${direction} beyond`, "data-line": docid }));
  }
  svg.replaceChildren(...lines);
}

/** Highlight the line and rows of the document under the pointer or with the focus. */
export function highlightDocument(event) {
  const docid = event.target.closest?.("[data-docid]")?.dataset.docid;
  for (const node of byId("sides").querySelectorAll("[data-docid], [data-line]"))
    node.classList.toggle("at", (node.dataset.docid ?? node.dataset.line) === docid);
}
