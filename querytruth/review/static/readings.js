// A text that was read in a photo without certainty: the place where it was read, and the photo.
import { Deck } from "./deck.js";
import { chip, element, keyButton, named, photo, t } from "./elements.js";
import { pair } from "./parts.js";

const draw = (card, deck) => [
  pair(photo(deck.imagePath(320, card.image_id), card.text, { class: "reading" }), "Does the photo show this text?",
    element("p", { class: "question" }, named(card.text)),
    element("p", { class: "row" }, keyButton("y", "This text", "large", deck), keyButton("n", "No such text", "large", deck), keyButton("e", "Something else", "large", deck)),
    element("p", { class: "chips" }, chip(t("confidence %(confidence)s", { confidence: card.confidence })),
      card.own && chip(card.own.text ? named(card.own.text) : "No such text", card.own.text ? "good" : "bad")),
    element("figure", { on: { click: () => enlarge(card, deck) } }, photo(deck.imagePath(1280, card.image_id), card.name)),
    element("p", { class: "quiet" }, named(card.name))),
];

const enlarge = (card, deck) => deck.large(card.image_id, card.name, card.boxes);

function decide(card, deck, text) {
  deck.submit({ key: card.key, text }, card.key);
  if (deck.at < deck.order.length - 1) deck.go(deck.at + 1);
}

new Deck("readings", draw, [
  [["y", "1"], "the photo shows this text, then go on", (card, deck) => decide(card, deck, card.text)],
  [["n", "0"], "it shows no such text, then go on", (card, deck) => decide(card, deck, "")],
  [["e"], "it shows another text: write it", (card, deck) => deck.write("The text in the photo", "As the photo shows it.", card.own?.text || card.text, false, (text) => decide(card, deck, text))],
  [["o"], "the photo, large, with the place of the text", enlarge],
]);
