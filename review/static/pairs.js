// One query and one picture, large: for audits, pairs that nobody judged, and disputes.
import { chip, element, photo } from "./elements.js";
import { Desk, settings } from "./desk.js";
import { disputed, grading, head, meaning } from "./parts.js";

function draw(card, desk) {
  const one = card.picture;
  const now = one.relevance === null ? chip("nobody judged it", "warm") : chip(`grade ${one.relevance} by ${one.judged_by}`);
  return [
    head(card),
    element("div", { class: "pair" },
      element("figure", {}, photo(desk.picture(1280, one.image_id), one.name)),
      element("div", { class: "side" },
        element("p", { class: "question" }, "Does the picture show it?"),
        grading(one, (grade) => say(card, desk, { decision: "grade", relevance: grade })),
        element("dl", { class: "meanings" }, ...settings.grades.map((grade) => element("div", {}, element("dt", {}, String(grade)), element("dd", {}, meaning(grade))))),
        element("p", { class: "chips" }, now, one.own && chip(`you said ${one.grade}`, "good")),
        one.evidence && element("p", { class: "quiet" }, element("bdi", {}, one.evidence)),
        one.score !== null && element("p", { class: "quiet" }, `score ${one.score.toFixed(2)}`),
        one.own?.note && element("p", { class: "note" }, element("bdi", {}, one.own.note)),
        disputed(card.others),
        element("p", { class: "quiet" }, element("bdi", {}, one.name)))),
  ];
}

const view = () => document.querySelector("[name=source]").value === "disagreements" ? "disagreements" : "pairs";

function say(card, desk, act, goes_on = true) {
  desk.say({ view: view(), query_id: card.query_id, text: card.text, image_id: card.picture.image_id, ...act }, card.key);
  if (goes_on) desk.go(desk.at + 1);
}

function grade(card, desk, key) {
  if (!settings.grades.includes(Number(key))) return desk.tell(new Error(`The grades of this set are ${settings.grades.join(", ")}.`));
  say(card, desk, { decision: "grade", relevance: Number(key) });
}

const keep = (card, desk) => say(card, desk, { decision: "keep" });
const keys = {
  x: (card, desk) => say(card, desk, { decision: "drop" }), a: keep, " ": keep,
  o: (card, desk) => desk.large(card.picture.image_id, card.picture.name),
  e: (card, desk) => desk.write("Edit the query", "Enter saves.", card.text, false,
    (text) => desk.say({ view: view(), query_id: card.query_id, text: card.text, decision: "edit", new_text: text }, card.key).then(() => desk.go(desk.at))),
  n: (card, desk) => desk.write("Note on this pair", "It is kept with the grade, as evidence in the next version.", card.picture.own?.note || "", true,
    (text) => say(card, desk, card.picture.grade === null ? { decision: "keep", note: text } : { decision: "grade", relevance: card.picture.grade, note: text }, false)),
};
for (const value of "0123456789") keys[value] = grade;

new Desk("pairs", draw, keys);
