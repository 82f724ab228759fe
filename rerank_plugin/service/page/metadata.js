// The stored metadata of a document: authors, journal, date, languages, types, headings, address, and retraction; and its
// abstract. All of it is optional, since indexes differ in what they store.

import { element, withSpans } from "./dom.js";

const SHOWN_AUTHORS = 3; // in a list of hits and above a folded list
const MAX_UNFOLDED = 12; // authors of the open document; a longer list is folded
const SITES = {
  PubMed: /^(pubmed\.ncbi\.nlm\.nih\.gov|www\.ncbi\.nlm\.nih\.gov\/pubmed)\//,
  PMC: /^(pmc\.ncbi\.nlm\.nih\.gov|www\.ncbi\.nlm\.nih\.gov\/pmc)\//,
  DOI: /^(dx\.)?doi\.org\//,
};

/** The metadata of a stored document; BEIR and others nest them. */
export const metadataOf = (stored) => ({ ...stored, ...stored?.metadata });

export const abstractOf = (stored) => stored.abstract ?? stored.text ?? (stored.title ? "" : stored.contents) ?? "";

const KINDS = { // of publication types, the mark of the first that an article has
  Preprint: "Preprint", "Practice Guideline": "Guideline", Guideline: "Guideline", "Meta-Analysis": "Meta-analysis",
  "Systematic Review": "Systematic review", "Randomized Controlled Trial": "Randomized trial", Review: "Review",
  "Clinical Trial": "Clinical trial", "Case Reports": "Case report", Editorial: "Editorial", Letter: "Letter",
};
const WARNINGS = ["Erratum in", "Expression of concern in", "Corrected and republished in", "Partial retraction in"];
const LABEL = /(?<=^|[.?!:)\]%] )\p{Lu}[\p{Lu} ,\/&’'()\-]{2,60}: (?=\S)/gu; // of a section: "METHODS: "

export const texts = (value) => [value].flat().filter((text) => typeof text === "string" && text);
const joined = (parts) => parts.flat().filter(Boolean).flatMap((part, place) => (place ? [" · ", part] : [part]));

/** The marks before a title: retraction, erratum, concern; empty for most articles. */
export function retraction(stored) {
  const kinds = texts(stored.notices).map(kindOf);
  const warnings = WARNINGS.filter((kind) => kinds.includes(kind)).map((kind) => kind.replace(/ in$/, ""));
  return [
    ...(stored.retracted === true ? [element("strong", { class: "retracted" }, "Retracted"), " "] : []),
    ...warnings.flatMap((name) => [element("strong", { class: "retracted corrected" }, name), " "]),
  ];
}

const kindOf = (notice) => notice.split(":", 1)[0];

/** The kind of an article, and its languages if they are not English. */
function kindAndLanguage(stored) {
  const types = texts(stored.types);
  const kind = Object.keys(KINDS).find((type) => types.includes(type));
  const languages = texts(stored.languages).map(languageName);
  const foreign = languages.some((language) => language !== "English") ? languages.join(", ") : "";
  return [kind && element("strong", { class: "kind" }, KINDS[kind]), foreign];
}

/** A link to the search for a value of a field of PubMed's language: `Smith JA[au]`. */
function searchLink(index, value, tag) {
  const quoted = tag === "au" ? value : `"${value.replaceAll('"', "")}"`;
  return element("a", { href: `?${new URLSearchParams({ index, query: `${quoted}[${tag}]` })}` }, value);
}

const listed = (nodes) => nodes.flatMap((node, place) => (place ? [", ", node] : [node]));

/** A line for a list of hits: authors, journal, year, and the id, a link if the address is known. */
export function summary(stored, docid) {
  const authors = texts(stored.authors);
  const shown = [...authors.slice(0, SHOWN_AUTHORS), ...(authors.length > SHOWN_AUTHORS ? ["et al."] : [])].join(", ");
  const year = texts(stored.date).map((date) => date.slice(0, 4));
  const id = link(stored, docid, (site) => ` at ${site}`) ?? docid;
  return element("p", { class: "details", dir: "auto" },
    joined([...kindAndLanguage(stored), shown, texts(stored.journal), year, id]));
}

/** The lines below the title of the open document: all authors, and the source. */
export function source(stored, docid, index) {
  const authors = texts(stored.authors);
  const links = listed(authors.map((author) => searchLink(index, author, "au")));
  const [volume, issue, pages] = ["volume", "issue", "pages"].map((name) => texts(stored[name]).join());
  const place = `${volume}${issue && `(${issue})`}${pages && `:${pages}`}`;
  return [
    authors.length > MAX_UNFOLDED
      ? element("details", { class: "authors" },
          element("summary", { dir: "auto" },
            `${authors.slice(0, SHOWN_AUTHORS).join(", ")} and ${authors.length - SHOWN_AUTHORS} more`),
          element("p", { dir: "auto" }, links))
      : authors.length ? element("p", { class: "authors", dir: "auto" }, links) : null,
    texts(stored.affiliation).length ? element("p", { class: "details", dir: "auto" }, stored.affiliation) : null,
    element("p", { class: "details", dir: "auto" },
      joined([...kindAndLanguage(stored), texts(stored.journal).map((journal) => searchLink(index, journal, "ta")),
        texts(stored.date), place, docid, doi(stored) && isDoi(stored) ? null : link(stored), doi(stored), pmc(stored)])),
    ...texts(stored.notices).map((notice) => noticeLine(notice, index)),
  ].filter(Boolean);
}

/** A line for a retraction, an erratum, a comment and the like, with a link to the notice. */
function noticeLine(notice, index) {
  const [, before, pmid] = /^(.*?)(?:PMID: (\d+))?$/.exec(notice);
  const alert = WARNINGS.concat("Retraction in").includes(kindOf(notice));
  return element("p", { class: alert ? "details alert" : "details", dir: "auto" }, before,
    pmid ? element("a", { href: `?${new URLSearchParams({ index, query: pmid })}` }, `PMID: ${pmid}`) : null);
}

/** An abstract, a paragraph for each of its labelled sections; `mark(span, part)` for spans [{start, end}]. */
export function abstractView(text, spans = [], mark = undefined) {
  const starts = [...text.matchAll(LABEL)].map((match) => match.index);
  const cuts = [...new Set([0, ...(starts.length > 1 ? starts : []), text.length])];
  let offset = 0;
  return element("div", { class: "abstract", dir: "auto" }, cuts.slice(1).map((end, place) => {
    const part = text.slice(cuts[place], end);
    const [first, last] = [offset, offset + Array.from(part).length];
    offset = last;
    const inside = spans.filter(({ start }) => start >= first && start < last)
      .map((span) => ({ ...span, start: span.start - first, end: span.end - first }));
    return element("p", {}, withSpans(part, inside, mark));
  }));
}

/** The lists below the abstract, of links to searches: publication types, headings, keywords and substances. */
export function headings(stored, index) {
  const links = (name, tag) => texts(stored[name]).map((value) => searchLink(index, value, tag));
  const lists = {
    "Publication types": links("types", "pt"), "MeSH headings": links("mesh", "mh"),
    Keywords: links("keywords", "ot"), Substances: links("chemicals", "nm"),
  };
  const parts = Object.entries(lists).filter(([, values]) => values.length).flatMap(([name, values]) => [
    element("dt", {}, name),
    element("dd", {}, element("ul", { dir: "auto" }, values.map((value) => element("li", {}, value)))),
  ]);
  return parts.length ? element("dl", { class: "headings" }, parts) : null;
}

/** The name of a language given by its ISO 639 code, as in PubMed; other texts stay as they are. */
export function languageName(code) {
  return /^[a-z]{2,3}$/.test(code) ? new Intl.DisplayNames("en", { type: "language" }).of(code) : code;
}

const isDoi = (stored) => URL.canParse(stored.url) && SITES.DOI.test(new URL(stored.url).host + "/");

/** A link to the article by its DOI, which is shown; null without one. */
function doi(stored) {
  const [id] = texts(stored.doi).filter((text) => /^10\.\d{4,9}\//.test(text));
  return id ? link({ url: `https://doi.org/${id.split("/").map(encodeURIComponent).join("/")}` }, `doi:${id}`) : null;
}

/** A link to the full text at PMC; null without one. */
function pmc(stored) {
  const [id] = texts(stored.pmc).filter((text) => /^PMC\d+$/.test(text));
  return id ? link({ url: `https://pmc.ncbi.nlm.nih.gov/articles/${id}/` }, "Full text at PMC") : null;
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
