// The stored metadata of a document: authors, journal, date, languages, types, headings, address, and retraction. All
// of it is optional, since indexes differ in what they store.

import { element } from "./dom.js";

const SHOWN_AUTHORS = 3; // in a list of hits and above a folded list
const MAX_UNFOLDED = 12; // authors of the open document; a longer list is folded
const SITES = {
  PubMed: /^(pubmed\.ncbi\.nlm\.nih\.gov|www\.ncbi\.nlm\.nih\.gov\/pubmed)\//,
  PMC: /^(pmc\.ncbi\.nlm\.nih\.gov|www\.ncbi\.nlm\.nih\.gov\/pmc)\//,
  DOI: /^(dx\.)?doi\.org\//,
};

const texts = (value) => [value].flat().filter((text) => typeof text === "string" && text);
const joined = (parts) => parts.flat().filter(Boolean).flatMap((part, place) => (place ? [" · ", part] : [part]));

/** The mark of a retracted article; empty for others. */
export const retraction = (stored) =>
  stored.retracted === true ? [element("strong", { class: "retracted" }, "Retracted"), " "] : [];

/** A line for a list of hits: authors, journal, year, and the id, a link if the address is known. */
export function summary(stored, docid) {
  const authors = texts(stored.authors);
  const shown = [...authors.slice(0, SHOWN_AUTHORS), ...(authors.length > SHOWN_AUTHORS ? ["et al."] : [])].join(", ");
  const year = texts(stored.date).map((date) => date.slice(0, 4));
  const id = link(stored, docid, (site) => ` at ${site}`) ?? docid;
  return element("p", { class: "details", dir: "auto" }, joined([shown, texts(stored.journal), year, id]));
}

/** The lines below the title of the open document: all authors, and the source. */
export function source(stored, docid) {
  const authors = texts(stored.authors);
  const languages = texts(stored.languages).map(languageName);
  const foreign = languages.some((language) => language !== "English") ? languages.join(", ") : "";
  return [
    authors.length > MAX_UNFOLDED
      ? element("details", { class: "authors" },
          element("summary", { dir: "auto" },
            `${authors.slice(0, SHOWN_AUTHORS).join(", ")} and ${authors.length - SHOWN_AUTHORS} more`),
          element("p", { dir: "auto" }, authors.join(", ")))
      : authors.length ? element("p", { class: "authors", dir: "auto" }, authors.join(", ")) : null,
    element("p", { class: "details", dir: "auto" },
      joined([texts(stored.journal), texts(stored.date), foreign, docid, link(stored)])),
  ];
}

/** The lists below the abstract: publication types and MeSH headings. */
export function headings(stored) {
  const lists = { "Publication types": texts(stored.types), "MeSH headings": texts(stored.mesh) };
  const parts = Object.entries(lists).filter(([, values]) => values.length).flatMap(([name, values]) => [
    element("dt", {}, name),
    element("dd", {}, element("ul", { dir: "auto" }, values.map((value) => element("li", {}, value)))),
  ]);
  return parts.length ? element("dl", { class: "headings" }, parts) : null;
}

/** The name of a language given by its ISO 639 code, as in PubMed; other texts stay as they are. */
function languageName(code) {
  return /^[a-z]{2,3}$/.test(code) ? new Intl.DisplayNames("en", { type: "language" }).of(code) : code;
}

/** A link to the stored address, with this text or the name of the site; null unless the site is one of SITES, since
 * the addresses in documents are not trusted. */
function link(stored, text = "", suffix = () => "") {
  const url = URL.canParse(stored.url) ? new URL(stored.url) : { protocol: "" };
  const matches = ([, pattern]) => pattern.test(url.host + url.pathname);
  const [site] = (["http:", "https:"].includes(url.protocol) && Object.entries(SITES).find(matches)) || [];
  return site === undefined ? null : element("a", { href: url.href, target: "_blank", rel: "noopener noreferrer" },
    text || site, element("span", { class: "visually-hidden" }, `${suffix(site)}, in a new tab`),
    element("span", { "aria-hidden": "true" }, " ↗"));
}
