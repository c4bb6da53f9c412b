// An image of a gallery, and what a person says of it in each language: a caption a line.
import { element, photo } from "./elements.js";
import { CardQueue } from "./card_queue.js";

const NAMES = { zh: "中文", en: "English" };

function draw(card, queue) {
  const fields = Object.entries(card.texts).map(([language, text]) => field(card, queue, language, text));
  return [
    element("div", { class: "pair" },
      element("figure", {}, photo(queue.imagePath(1280, card.image_id), card.name)),
      element("div", { class: "side" },
        element("p", { class: "question" }, "What is on the image?"),
        ...fields,
        element("p", { class: "row" }, element("button", { type: "button", class: "main", on: { click: () => save(card, queue) } }, "Save, next ", element("kbd", {}, "Enter"))),
        element("p", { class: "quiet" }, element("bdi", {}, card.name)),
        card.taken_at && element("p", { class: "quiet" }, card.taken_at))),
  ];
}

function field(card, queue, language, text) {
  const area = element("textarea", { rows: 3, maxlength: 4000, lang: language, name: language, class: "caption" });
  area.value = text;
  area.addEventListener("keydown", (event) => {
    if (event.key === "Escape") area.blur();
    if (event.key !== "Enter" || event.isComposing || event.shiftKey) return;
    event.preventDefault();
    event.stopPropagation();
    save(card, queue);
  });
  return element("label", { class: "field" }, element("span", { class: "quiet" }, NAMES[language] || language), area);
}

function save(card, queue) {
  for (const area of document.querySelectorAll(".caption")) {
    if (area.value.trim() !== card.texts[area.name]) queue.submit({ image_id: card.image_id, language: area.name, text: area.value }, card.key);
  }
  const last = queue.at === queue.order.length - 1;
  if (last) return document.activeElement?.blur();
  // Until the next image is here, nothing more is written to this one.
  for (const area of document.querySelectorAll(".caption")) area.readOnly = true;
  queue.go(queue.at + 1).then(write);
}

const write = () => document.querySelector(".caption")?.focus();
new CardQueue("captions", draw, { e: write, o: (card, own) => own.large(card.image_id, card.name) });
