// Two pictures that count as one, side by side: the same, or not; and what becomes of their group.
import { chip, element } from "./elements.js";
import { Desk } from "./desk.js";

const WAYS = { pixels: "same pixels", hash: "look alike", embedding: "similar to the embedder", person: "the same, a person said", bytes: "same bytes" };
const SAID = { same: "the same", different: "not the same" };
const shown = (side, id) => `/duplicates/picture/${side}/${encodeURIComponent(id)}`;

function draw(card, desk) {
  const own = card.own?.decision;
  return [
    element("div", { class: "two" }, half(card.one, desk), half(card.other, desk)),
    element("div", { class: "verdict" },
      element("p", { class: "question" }, "Is it the same picture?"),
      element("p", { class: "row" }, answer(card, desk, "same", "Same", "s"), answer(card, desk, "different", "Not the same", "d")),
      element("p", { class: "chips" }, how(card), own && chip(`you said ${SAID[own]}`, "good"),
        card.said && card.said !== own && chip(`the last word on it is ${SAID[card.said]}`, "warm")),
      card.own?.note && element("p", { class: "note" }, element("bdi", {}, card.own.note))),
    element("div", { class: "strips" }, strip("Now", card.before), strip("After the next build", card.after),
      card.after.length > card.before.length && element("p", { class: "quiet" }, "What leaves a group may come into the gallery; others of the group go along with what they are nearer to.")),
  ];
}

function half(one, desk) {
  const image = element("img", { src: shown(1280, one.image_id), alt: one.name });
  image.addEventListener("error", () => image.replaceWith(element("span", { class: "absent" }, `${one.name}: not at hand, or changed since`)));
  const figure = element("figure", {}, image);
  figure.addEventListener("click", () => large(one, desk));
  return element("div", { class: "half" }, figure,
    element("p", { class: "quiet" }, element("bdi", {}, one.name)),
    element("p", { class: "chips" }, chip(`${one.width} × ${one.height}`), one.inside ? chip("in the gallery", "good") : chip("left out")));
}

function how(card) {
  if (!card.way) return chip("in no group together");
  return chip(WAYS[card.way] + (card.bits === null ? "" : `, ${card.bits} ${card.bits === 1 ? "bit" : "bits"} apart`));
}

const answer = (card, desk, decision, says, key) => element("button",
  { type: "button", class: "large", "aria-pressed": String(card.own?.decision === decision), on: { click: () => say(card, desk, decision) } }, says, " ", element("kbd", {}, key));

function strip(title, groups) {
  return element("section", {}, element("h2", {}, title),
    element("div", { class: "boxes" }, ...groups.map((group) => element("div", { class: "box" },
      ...group.pictures.map((id) => element("img", { src: shown(320, id), alt: "", loading: "lazy" })),
      element("span", { class: "quiet" }, group.size === 1 ? "alone" : `${group.size} are one`)))));
}

function say(card, desk, decision, goesOn = true, note = card.own?.note || "") {
  desk.say({ key: card.key, decision, note }, card.key);
  if (goesOn && desk.at < desk.order.length - 1) desk.go(desk.at + 1);
}

function large(one, desk) {
  desk.large(one.image_id, one.name);
  document.getElementById("large-picture").src = shown(1280, one.image_id);
}

const desk = new Desk("duplicates", draw, {
  s: (card, desk) => say(card, desk, "same"),
  d: (card, desk) => say(card, desk, "different"),
  o: (card, desk) => large(card.one, desk),
  p: (card, desk) => large(card.other, desk),
  n: (card, desk) => card.own
    ? desk.write("Note on these two", "It is kept with your decision.", card.own.note, true, (text) => say(card, desk, card.own.decision, false, text))
    : desk.tell(new Error("Decide first: s or d. Then write why.")),
}, "/api/duplicates");

let typing;
const search = document.querySelector("[name=search]");
search.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(() => desk.load(), 250); });
search.addEventListener("keydown", (event) => { if (event.key === "Enter") event.target.blur(); });
