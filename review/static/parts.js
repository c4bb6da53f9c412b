// What the views of queries and of pairs share.
import { chip, element } from "./elements.js";
import { settings } from "./card_queue.js";

export const meaning = (grade) => settings.meanings[grade] || (grade === 0 ? "not relevant" : `grade ${grade}`);

const DECISION_NAMES = { keep: "kept by you", drop: "dropped by you", edit: "edited by you" };

export function head(card) {
  const own = card.own && chip(DECISION_NAMES[card.own.decision], card.own.decision === "drop" ? "bad" : "good");
  const chips = [card.language, `level ${card.level}`, card.topic, ...card.labels].filter(Boolean).map((name) => chip(name));
  const doubts = card.flags.map((name) => chip(name.replaceAll("_", " "), "warm"));
  return element("div", { class: "head" },
    element("h1", { lang: card.language }, element("bdi", {}, card.text)),
    card.text !== card.published && element("p", { class: "quiet" }, "was: ", element("bdi", { lang: card.language }, card.published)),
    element("p", { class: "chips" }, own, ...doubts, ...chips),
    card.own?.note && element("p", { class: "note" }, element("bdi", {}, card.own.note)),
    disputed(card.disputed_by));
}

export function disputed(decisions) {
  if (!decisions.length) return null;
  return element("p", { class: "note" }, "In dispute: ", ...decisions.map((one) => chip(`${one.reviewer || "nobody named"}: ${one.verdict}`, "warm")));
}

export function grading(one, decide) {
  const buttons = settings.grades.map((grade) => element("button", {
    type: "button", class: `g${grade}`, "aria-pressed": String(one.grade === grade), title: `${grade}: ${meaning(grade)}`,
    on: { click: (event) => { event.stopPropagation(); decide(grade); } },
  }, String(grade)));
  return element("div", { class: "grading", role: "group", "aria-label": `grade of ${one.name}` }, ...buttons);
}
