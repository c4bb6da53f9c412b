// An image of a gallery, and what a person says of it in each language: a caption a line.
import { Deck } from "./deck.js";
import { element, photo } from "./elements.js";
import { pair } from "./parts.js";

const NAMES = { zh: "中文", en: "English" };

const draw = (card, deck) => [
  pair(photo(deck.imagePath(1280, card.image_id), card.name), "What is on the image?",
    ...Object.entries(card.texts).map(([language, text]) => field(card, deck, language, text)),
    element("p", { class: "row" }, element("button", { type: "button", class: "main", on: { click: () => save(card, deck) } }, "Save, next ", element("kbd", {}, "Enter"))),
    element("p", { class: "quiet" }, element("bdi", {}, card.name)),
    card.taken_at && element("p", { class: "quiet" }, card.taken_at)),
];

function field(card, deck, language, text) {
  const area = element("textarea", { rows: 3, maxlength: 4000, lang: language, name: language, class: "caption" });
  area.value = text;
  area.addEventListener("keydown", (event) => {
    if (event.key === "Escape") area.blur();
    if (event.key !== "Enter" || event.isComposing || event.shiftKey) return;
    event.preventDefault();
    event.stopPropagation();
    save(card, deck);
  });
  return element("label", { class: "field" }, element("span", { class: "quiet" }, NAMES[language] || language), area);
}

const fields = () => document.querySelectorAll(".caption");
const write = () => fields()[0]?.focus();

function save(card, deck) {
  for (const area of fields()) {
    if (area.value.trim() !== card.texts[area.name]) deck.submit({ image_id: card.image_id, language: area.name, text: area.value }, card.key);
  }
  if (deck.at === deck.order.length - 1) return document.activeElement?.blur();
  // Until the next image is here, nothing more is written to this one.
  for (const area of fields()) area.readOnly = true;
  deck.go(deck.at + 1).then(write);
}

new Deck("captions", draw, [
  [["e"], "write; Enter saves and goes on, Shift Enter begins another caption, Esc leaves the field", write],
  [["o"], "the image, large", (card, deck) => deck.large(card.image_id, card.name)],
]);
