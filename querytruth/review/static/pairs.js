// One query and one image, large: for audits, pairs that nobody judged, and disputes.
import { chip, element, photo, t } from "./elements.js";
import { toggleBoxes, withBoxes } from "./boxes.js";
import { CardQueue, settings } from "./card_queue.js";
import { decidedTexts, differing, disputed, editText, gradeOf, grading, head, markNextText, meaning } from "./parts.js";

function draw(card, queue) {
  const one = card.image;
  const now = one.relevance === null ? chip("nobody judged it", "warm") : chip(t("grade %(grade)s by %(judge)s", { grade: one.relevance, judge: t(one.judged_by) }));
  return [
    head(card, queue),
    element("div", { class: "pair" },
      element("figure", {}, withBoxes(photo(queue.imagePath(1280, one.image_id), one.name), one.boxes)),
      element("div", { class: "side" },
        element("p", { class: "question" }, "Does the image show it?"),
        grading(one, (grade) => decide(card, queue, { decision: "grade", relevance: grade }), gradeOf(card, one)),
        element("dl", { class: "meanings" }, ...settings.grades.map((grade) => element("div", {}, element("dt", {}, String(grade)), element("dd", {}, meaning(grade))))),
        element("p", { class: "chips" }, one.is_source && chip("the caption was written of it", "source"), now, one.own && chip(t("you decided %(grade)s", { grade: one.grade }), "good")),
        differing(card, one),
        one.evidence && element("p", { class: "quiet" }, element("bdi", {}, one.evidence)),
        one.score !== null && element("p", { class: "quiet" }, t("score %(score)s", { score: one.score.toFixed(2) })),
        one.own?.note && element("p", { class: "note" }, element("bdi", {}, one.own.note)),
        disputed(card.disputed_by),
        element("p", { class: "quiet" }, element("bdi", {}, one.name)))),
  ];
}

const view = () => document.querySelector("[name=source]").value === "disagreements" ? "disagreements" : "pairs";

function decide(card, queue, act, goesOn = true) {
  queue.submit({ view: view(), ...decidedTexts(card), image_id: card.image.image_id, ...act }, card.key);
  if (goesOn) queue.go(queue.at + 1);
}

function grade(card, queue, key) {
  if (!settings.grades.includes(Number(key))) return queue.showError(new Error(t("The grades of this set are %(grades)s.", { grades: settings.grades.join(", ") })));
  decide(card, queue, { decision: "grade", relevance: Number(key) });
}

const keep = (card, queue) => decide(card, queue, { decision: "keep" });
const keys = {
  x: (card, queue) => decide(card, queue, { decision: "drop" }), a: keep, " ": keep,
  o: (card, queue) => queue.large(card.image.image_id, card.image.name, card.image.boxes),
  b: toggleBoxes,
  t: markNextText,
  e: (card, queue) => editText(card, queue, (act) => queue.submit({ view: view(), ...act }, card.key).then(() => queue.go(queue.at))),
  n: (card, queue) => queue.write("Note on this pair", "It is kept with the grade, as evidence in the next version.", card.image.own?.note || "", true,
    (text) => decide(card, queue, card.image.grade === null ? { decision: "keep", note: text } : { decision: "grade", relevance: card.image.grade, note: text }, false)),
};
for (const value of "0123456789") keys[value] = grade;

new CardQueue("pairs", draw, keys);
