// Files: the whole list, or documents by their ids, in the formats of reference managers; and texts that the page makes.

import { indexPath, post } from "./api.js";
import { element, menu } from "./dom.js";

const FORMATS = { ris: "RIS", nbib: "PubMed (nbib)", bibtex: "BibTeX", csv: "CSV", json: "JSON" };

export function download(name, text) {
  const link = element("a", { href: URL.createObjectURL(new Blob([text], { type: "text/plain" })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** The menu of export formats; `documents()` gives {search} or {docids}, `guarded` shows errors. */
export function exportMenu(name, index, documents, guarded, ...others) {
  const save = async (format) => {
    const text = await (await post(indexPath(index, "export"), { ...documents(), format })).text();
    download(`${index}.${format === "bibtex" ? "bib" : format}`, text);
  };
  const buttons = Object.entries(FORMATS).map(([format, label]) =>
    element("button", { type: "button", "data-format": format, click: () => guarded(() => save(format)) }, label));
  return menu(name, buttons, others);
}
