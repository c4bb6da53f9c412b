// One query and one image, large: for pairs that nobody judged, samples, and disputes.
import { withBoxes } from "./boxes.js";
import { Deck } from "./deck.js";
import { chip, element, photo, t } from "./elements.js";
import { boxesVerdict, decidedTexts, differing, disputed, editText, gradeOf, gradeVerdict, grading, head, meanings, noteOf, otherGrades, pair, textVerdict } from "./parts.js";

function draw(card, deck) {
  const one = card.image;
  const now = one.relevance === null ? chip("nobody judged it", "warm") : chip(t("grade %(grade)s by %(judge)s", { grade: one.relevance, judge: t(one.judged_by) }));
  return [
    head(card, deck),
    pair(withBoxes(photo(deck.imagePath(1280, one.image_id), one.name), one.boxes), "Does the image show it?",
      grading(one, (grade) => decide(card, deck, { decision: "grade", relevance: grade }), gradeOf(card, one)),
      meanings(),
      element("p", { class: "chips" }, one.is_source && chip("the caption was written of it", "source"), now, one.own && chip(t("you decided %(grade)s", { grade: one.grade }), "good")),
      differing(card, one),
      one.evidence && element("p", { class: "quiet" }, element("bdi", {}, one.evidence)),
      one.score !== null && element("p", { class: "quiet" }, t("score %(score)s", { score: one.score.toFixed(2) })),
      noteOf(one.own),
      disputed(card.disputed_by),
      element("p", { class: "quiet" }, element("bdi", {}, one.name))),
  ];
}

const view = () => document.querySelector("[name=source]").value === "disagreements" ? "disagreements" : "pairs";

function decide(card, deck, act, goesOn = true) {
  deck.submit({ view: view(), ...decidedTexts(card), image_id: card.image.image_id, ...act }, card.key);
  if (goesOn) deck.go(deck.at + 1);
}

function note(card, deck) {
  const grade = card.image.grade === null ? { decision: "keep" } : { decision: "grade", relevance: card.image.grade };
  deck.write("Note on this pair", "It is kept with the grade, as evidence in the next version.", card.image.own?.note || "", true,
    (text) => decide(card, deck, { ...grade, note: text }, false));
}

new Deck("pairs", draw, [
  gradeVerdict("grade the image, then go on", (card, deck, relevance) => decide(card, deck, { decision: "grade", relevance })),
  [["x"], "not relevant, then go on", (card, deck) => decide(card, deck, { decision: "drop" })],
  [["a", " "], "the grade is right, then go on", (card, deck) => decide(card, deck, { decision: "keep" })],
  textVerdict,
  boxesVerdict,
  [["e"], "edit the query's text", (card, deck) => editText(card, deck, (act) => deck.submit({ view: view(), ...act }, card.key).then(() => deck.go(deck.at)))],
  [["n"], "write a note", note],
  [["o"], "the image, large", (card, deck) => deck.large(card.image.image_id, card.image.name, card.image.boxes)],
  otherGrades,
]);
