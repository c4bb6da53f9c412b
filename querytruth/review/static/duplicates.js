// Two images that count as one, side by side: the same, or not; and what becomes of their group.
import { Deck } from "./deck.js";
import { chip, element, photo, t } from "./elements.js";
import { PairFinder } from "./finder.js";
import { noteOf } from "./parts.js";

const MATCH_NAMES = { pixels: "same pixels", views: "look alike", embedding: "similar to the embedder", person: "the same, a person decided", bytes: "same bytes" };
const DECISION_NAMES = { same: "the same", different: "not the same" };

function draw(card, deck) {
  const own = card.own?.decision;
  return [
    element("div", { class: "two" }, half(card.one, deck), half(card.other, deck)),
    element("div", { class: "verdict" },
      element("p", { class: "question" }, "Is it the same image?"),
      element("p", { class: "row" }, answer(card, deck, "same", "Same", "s"), answer(card, deck, "different", "Not the same", "d")),
      element("p", { class: "chips" }, matchChip(card), own && chip(t("you decided %(grade)s", { grade: t(DECISION_NAMES[own]) }), "good"),
        card.last_decision && card.last_decision !== own && chip(t("the last decision on it: %(decision)s", { decision: t(DECISION_NAMES[card.last_decision]) }), "warm"),
        pairing()),
      noteOf(card.own)),
    element("div", { class: "strips" }, strip("Now", card.before, deck), strip("After the next build", card.after, deck),
      card.after.length > card.before.length && element("p", { class: "quiet" }, "What leaves a group may come into the gallery; others of the group go along with what they are nearer to.")),
  ];
}

function half(one, deck) {
  const image = photo(deck.imagePath(1280, one.image_id), one.name, {}, t("%(name)s: not available, or changed since", { name: one.name }));
  const figure = element("figure", { on: { click: () => deck.large(one.image_id, one.name) } }, image);
  return element("div", { class: "half" }, figure,
    element("p", { class: "quiet" }, element("bdi", {}, one.name)),
    element("p", { class: "chips" }, chip(`${one.width} × ${one.height}`), one.in_gallery ? chip("in the gallery", "good") : chip("left out")));
}

function matchChip(card) {
  if (!card.matched_by) return chip(card.before.length === 1 ? "in one group by way of others" : "in no group together");
  return chip(t(MATCH_NAMES[card.matched_by]) + (card.hash_distance === null ? "" : t(", %(bits)s bits apart", { bits: card.hash_distance })) + (card.edit ? `: ${card.edit.replaceAll("+", ", ")}` : ""));
}

const answer = (card, deck, decision, label, key) => element("button",
  { type: "button", class: "large", "aria-pressed": String(card.own?.decision === decision), on: { click: () => decide(card, deck, decision) } }, label, " ", element("kbd", {}, key));

const pairing = () => element("button", { type: "button", class: "small", on: { click: () => finder.open() } }, "Pair other images ", element("kbd", {}, "m"));

function strip(title, groups, deck) {
  return element("section", {}, element("h2", {}, title),
    element("div", { class: "groups" }, ...groups.map((group) => element("div", { class: "group" },
      ...group.images.map((id) => element("img", { src: deck.imagePath(320, id), alt: "", loading: "lazy" })),
      element("span", { class: "quiet" }, group.size === 1 ? "alone" : t("%(number)s are the same", { number: group.size }))))));
}

function decide(card, deck, decision, goesOn = true, note = card.own?.note || "") {
  deck.submit({ key: card.key, decision, note }, card.key);
  if (goesOn && deck.at < deck.order.length - 1) deck.go(deck.at + 1);
}

function note(card, deck) {
  if (!card.own) return deck.showError(new Error("Decide first: s or d. Then write why."));
  return deck.write("Note on these two", "It is kept with your decision.", card.own.note, true, (text) => decide(card, deck, card.own.decision, false, text));
}

const finder = new PairFinder();
finder.deck = new Deck("duplicates", draw, [
  [["s"], "the same, then go on", (card, deck) => decide(card, deck, "same")],
  [["d"], "not the same, then go on", (card, deck) => decide(card, deck, "different")],
  [["m"], "bring two other images together: by name, or those of two cards", () => finder.open(), true],
  [["n"], "write a note", note],
  [["o"], "the image on the left, large", (card, deck) => deck.large(card.one.image_id, card.one.name)],
  [["p"], "the image on the right, large", (card, deck) => deck.large(card.other.image_id, card.other.name)],
], { images: "/duplicates/image", beside: [pairing()] });
