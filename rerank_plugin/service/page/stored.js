// What is stored of a document beside its texts: who wrote it, where and when, what it is about, its address, and
// whether it was retracted. Other indexes store other things, so that nothing is expected to be there.

import { element } from "./dom.js";

const AUTHORS = 3; // of a list; all are in the open document
const MOST = 12; // of which more are folded
const PLACES = {
  PubMed: /^(pubmed\.ncbi\.nlm\.nih\.gov|www\.ncbi\.nlm\.nih\.gov\/pubmed)\//,
  PMC: /^(pmc\.ncbi\.nlm\.nih\.gov|www\.ncbi\.nlm\.nih\.gov\/pmc)\//,
  DOI: /^(dx\.)?doi\.org\//,
};

const texts = (value) => [value].flat().filter((one) => typeof one === "string" && one);
const joined = (parts) => parts.flat().filter(Boolean).flatMap((part, at) => (at ? [" · ", part] : [part]));

/** The mark of a retracted article, and nothing of others. */
export const retraction = (stored) =>
  stored.retracted === true ? [element("strong", { class: "retracted" }, "Retracted"), " "] : [];

/** One line for a list: authors, journal, year, and the id, which is a link where the address is known. */
export function summary(stored, docid) {
  const authors = texts(stored.authors);
  const shown = [...authors.slice(0, AUTHORS), ...(authors.length > AUTHORS ? ["et al."] : [])].join(", ");
  const year = texts(stored.date).map((date) => date.slice(0, 4));
  const id = link(stored, docid, (place) => ` at ${place}`) ?? docid;
  return element("p", { class: "details", dir: "auto" }, joined([shown, texts(stored.journal), year, id]));
}

/** Below the title of the open document: all authors, and its source. */
export function source(stored, docid) {
  const authors = texts(stored.authors);
  const languages = texts(stored.languages).map(languageName);
  const foreign = languages.some((one) => one !== "English") ? languages.join(", ") : "";
  return [
    authors.length > MOST
      ? element("details", { class: "authors" },
          element("summary", { dir: "auto" }, `${authors.slice(0, AUTHORS).join(", ")} and ${authors.length - AUTHORS} more`),
          element("p", { dir: "auto" }, authors.join(", ")))
      : authors.length ? element("p", { class: "authors", dir: "auto" }, authors.join(", ")) : null,
    element("p", { class: "details", dir: "auto" },
      joined([texts(stored.journal), texts(stored.date), foreign, docid, link(stored)])),
  ];
}

/** Below the abstract: publication types and MeSH headings. */
export function headings(stored) {
  const lists = { "Publication types": texts(stored.types), "MeSH headings": texts(stored.mesh) };
  const parts = Object.entries(lists).filter(([, values]) => values.length).flatMap(([name, values]) => [
    element("dt", {}, name),
    element("dd", {}, element("ul", { dir: "auto" }, values.map((one) => element("li", {}, one)))),
  ]);
  return parts.length ? element("dl", { class: "headings" }, parts) : null;
}

/** The name of a language that has a code of ISO 639, as PubMed writes them. */
function languageName(one) {
  return /^[a-z]{2,3}$/.test(one) ? new Intl.DisplayNames("en", { type: "language" }).of(one) : one;
}

/** A link to the stored address with this text, or the place's name; null where it is none of the web at such a place:
 * what else documents hold is no link. */
function link(stored, text = "", unseen = () => "") {
  const found = URL.canParse(stored.url) ? new URL(stored.url) : { protocol: "" };
  const isPlace = ([, beginning]) => beginning.test(found.host + found.pathname);
  const [place] = (["http:", "https:"].includes(found.protocol) && Object.entries(PLACES).find(isPlace)) || [];
  return place === undefined ? null : element("a", { href: found.href, target: "_blank", rel: "noopener noreferrer" },
    text || place, element("span", { class: "unseen" }, `${unseen(place)}, in a new tab`),
    element("span", { "aria-hidden": "true" }, " ↗"));
}
