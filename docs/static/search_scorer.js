// Guides come before decisions, and these before the API reference: the name of a method counts less than a heading or a word of a guide.
var Scorer = {
  score: ([page, title, anchor, description, score]) =>
    score - (page.startsWith("api/") ? 100 : page.startsWith("decisions/") ? 50 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
