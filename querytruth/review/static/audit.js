// The drawn pairs of an audit, one large at a time. Nothing on it tells what the set, a model or others say of a pair.
import { ask, chip, element, photo, t } from "./elements.js";
import { CardQueue, settings } from "./card_queue.js";
import { grading, meaning } from "./parts.js";

const IMAGE = "the image";

function draw(card, queue) {
  const { own, image_id } = card.image;
  const unsure = own !== null && own.grade === null;
  return [
    element("h1", { class: "query", lang: card.language }, element("bdi", {}, card.text)),
    element("div", { class: "pair" },
      element("figure", { on: { click: () => queue.large(image_id, "") } }, photo(queue.imagePath(1280, image_id), IMAGE, {}, "not at hand")),
      element("div", { class: "side" },
        element("p", { class: "question" }, "Would you want it for this query?"),
        grading({ name: IMAGE, grade: own?.grade ?? null }, (grade) => answer(card, queue, grade)),
        element("button", { type: "button", "aria-pressed": String(unsure), on: { click: () => answer(card, queue, null) } }, "Cannot tell ", element("kbd", {}, "c")),
        element("dl", { class: "meanings" }, ...settings.grades.map((grade) => element("div", {}, element("dt", {}, String(grade)), element("dd", {}, meaning(grade))))),
        own && element("p", { class: "chips" }, chip(unsure ? "you cannot tell" : t("you decided %(grade)s", { grade: own.grade }), "good")),
        own?.note && element("p", { class: "note" }, element("bdi", {}, own.note)))),
  ];
}

function answer(card, queue, grade, note = card.image.own?.note || "", goesOn = true) {
  queue.submit({ key: card.key, grade, note }, card.key).then(() => continueQueue(queue));
  if (goesOn) queue.go(queue.at + 1);
}

// An audit until a goal plans its cards from the answers: more of them, and what is certified, before these run out.
async function continueQueue(queue) {
  const stated = document.getElementById("stated");
  if (!stated || queue.done.filter((one) => !one).length > 2 || queue.waiting > 1) return;
  const audit = queue.form.elements.audit.value;
  const answer = await ask(`/api/audit/next?${new URLSearchParams({ audit })}`).catch((error) => queue.showError(error));
  if (!answer?.stated) return;
  stated.textContent = answer.stated;
  const isLast = queue.done[queue.at] === 1 && queue.at === queue.order.length - 1;
  const added = answer.keys.filter((one) => !queue.order.includes(one));
  for (const key of added) { queue.order.push(key); queue.done.push(0); }
  await queue.fetchCards(added);
  queue.go(isLast ? queue.at + 1 : queue.at);
}

function number(card, queue, key) {
  if (!settings.grades.includes(Number(key))) return queue.showError(new Error(t("The grades of this set are %(grades)s.", { grades: settings.grades.join(", ") })));
  answer(card, queue, Number(key));
}

const keys = {
  x: (card, queue) => answer(card, queue, 0),
  c: (card, queue) => answer(card, queue, null),
  o: (card, queue) => queue.large(card.image.image_id, ""),
  n: (card, queue) => {
    const { own } = card.image;
    if (!own) return queue.showError(new Error("Answer first; the note is kept with the answer."));
    queue.write("Note on this pair", "It is kept with the answer.", own.note, true, (text) => answer(card, queue, own.grade, text, false));
  },
};
for (const value of "0123456789") keys[value] = number;

new CardQueue("audit", draw, keys, { home: "/api/audit", doneLabel: "answered" });
