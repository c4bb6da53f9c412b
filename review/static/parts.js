// What the views of queries and of pairs share.
import { chip, element } from "./elements.js";
import { settings } from "./desk.js";

export const meaning = (grade) => settings.meanings[grade] || (grade === 0 ? "not relevant" : `grade ${grade}`);

const WORDS = { keep: "kept by you", drop: "dropped by you", edit: "edited by you" };

export function head(card) {
  const own = card.own && chip(WORDS[card.own.decision], card.own.decision === "drop" ? "bad" : "good");
  const chips = [card.language, `level ${card.level}`, card.topic, ...card.labels].filter(Boolean).map((name) => chip(name));
  const doubts = card.suspicions.map((name) => chip(name.replaceAll("_", " "), "warm"));
  return element("div", { class: "head" },
    element("h1", { lang: card.language }, element("bdi", {}, card.text)),
    card.text !== card.published && element("p", { class: "quiet" }, "was: ", element("bdi", { lang: card.language }, card.published)),
    element("p", { class: "chips" }, own, ...doubts, ...chips),
    card.own?.note && element("p", { class: "note" }, element("bdi", {}, card.own.note)),
    disputed(card.said));
}

export function disputed(said) {
  if (!said.length) return null;
  return element("p", { class: "note" }, "In dispute: ", ...said.map((one) => chip(`${one.reviewer || "nobody named"}: ${one.verdict}`, "warm")));
}

export function grading(one, say) {
  const buttons = settings.grades.map((grade) => element("button", {
    type: "button", class: `g${grade}`, "aria-pressed": String(one.grade === grade), title: `${grade}: ${meaning(grade)}`,
    on: { click: (event) => { event.stopPropagation(); say(grade); } },
  }, String(grade)));
  return element("div", { class: "grading", role: "group", "aria-label": `grade of ${one.name}` }, ...buttons);
}
