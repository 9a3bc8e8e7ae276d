// The order of what a search finds: by BM25 over the texts of the pages, a title counting for as much as TITLE words.
// Names that are asked for exactly come first; tutorials and guides come before explanations, and those before the
// reference, the evidence, the proofs and the project's records.
const TITLE = 10;
const EXPLANATIONS = /^docs\/explanation\//;
const AFTER_GUIDES = /^(proofs|reproductions)\/|^[A-Z]+$|^docs\/(reference|evidence|project)\//;

const rankPages = (query) => {
  const stemmer = new Stemmer();
  const words = splitQuery(query.toLowerCase()).filter((word) => !stopwords.has(word));
  const stems = words.map((word) => new RegExp(`(?<![\\p{L}\\p{N}])${stemmer.stemWord(word)}`, "gu"));
  const pages = Object.entries(PAGE_TEXTS).map(([name, [title, text]]) => [
    name.replace(/\.html$/, ""),
    `${`${title} `.repeat(TITLE)}${text}`.toLowerCase(),
  ]);
  const meanLength = pages.reduce((sum, [, text]) => sum + text.length, 0) / pages.length;
  const rank = Object.fromEntries(pages.map(([name]) => [name, 0]));
  for (const stem of stems) {
    const counts = pages.map(([, text]) => (text.match(stem) ?? []).length);
    const holding = counts.filter((count) => count > 0).length;
    const rarity = Math.log(1 + (pages.length - holding + 0.5) / (holding + 0.5));
    pages.forEach(([name, text], i) => {
      const length = 0.25 + (0.75 * text.length) / meanLength;
      rank[name] += (rarity * 2.2 * counts[i]) / (counts[i] + 1.2 * length);
    });
  }
  return rank;
};

let ranked = null;

var Scorer = {
  score: ([docname, title, anchor, , score, , kind]) => {
    const query = new URLSearchParams(location.search).get("q").trim();
    if (kind === "object") return title === query || title === `discreet.${query}` ? 100 : score / 100;
    ranked ??= rankPages(query);
    return (ranked[docname] ?? 0) * (AFTER_GUIDES.test(docname) ? 0.5 : EXPLANATIONS.test(docname) ? 0.75 : 1) * (anchor ? 0.9 : 1);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
