// Lines between the same documents of both sides; those of a document that only one side shows come from below.

import { byId, svgElement } from "./dom.js";

export function drawLines() {
  const picture = byId("lines");
  const frame = picture.getBoundingClientRect();
  const all = (side) => [...byId(side).querySelectorAll("[data-docid]")];
  const rows = (side) => new Map(all(side).map((row) => [row.dataset.docid, row]));
  const height = (row) => {
    const box = row.getBoundingClientRect();
    return box.top + Math.min(box.height / 2, 40) - frame.top;
  };
  const [left, right, half] = [rows("side-left"), rows("side-right"), frame.width / 2];
  const lines = [];
  for (const docid of new Set([...left.keys(), ...right.keys()])) {
    const both = left.has(docid) && right.has(docid);
    const from = left.has(docid) ? height(left.get(docid)) : frame.height;
    const to = right.has(docid) ? height(right.get(docid)) : frame.height;
    const way = Math.abs(to - from) < 8 ? "same" : to < from ? "up" : "down";
    const d = `M0 ${from}C${half} ${from} ${half} ${to} ${frame.width} ${to}`;
    lines.push(svgElement("path", { d, class: both ? way : `${way} beyond`, "data-line": docid }));
  }
  picture.replaceChildren(...lines);
}

/** Show which line and rows are of the document that the pointer or the focus is at. */
export function followDocument(event) {
  const docid = event.target.closest?.("[data-docid]")?.dataset.docid;
  for (const one of byId("sides").querySelectorAll("[data-docid], [data-line]"))
    one.classList.toggle("at", (one.dataset.docid ?? one.dataset.line) === docid);
}
