// The drawn pairs of an audit, one large at a time. Nothing on it tells what the set, a model or others say of a pair.
import { Deck } from "./deck.js";
import { ask, chip, element, photo, t } from "./elements.js";
import { gradeVerdict, grading, meanings, noteOf, otherGrades, pair } from "./parts.js";

const IMAGE = "the image";

function draw(card, deck) {
  const { own, image_id } = card.image;
  const unsure = own !== null && own.grade === null;
  return [
    element("h1", { class: "query", lang: card.language }, element("bdi", {}, card.text)),
    pair(photo(deck.imagePath(1280, image_id), IMAGE, { on: { click: () => deck.large(image_id, "") } }, "not available"), "Would you want it for this query?",
      grading({ name: IMAGE, grade: own?.grade ?? null }, (grade) => answer(card, deck, grade)),
      element("button", { type: "button", "aria-pressed": String(unsure), on: { click: () => answer(card, deck, null) } }, "Cannot tell ", element("kbd", {}, "c")),
      meanings(),
      own && element("p", { class: "chips" }, chip(unsure ? "you cannot tell" : t("you decided %(grade)s", { grade: own.grade }), "good")),
      noteOf(own)),
  ];
}

function answer(card, deck, grade, note = card.image.own?.note || "", goesOn = true) {
  deck.submit({ key: card.key, grade, note }, card.key).then(() => continueDeck(deck));
  if (!goesOn) return;
  if (deck.at === deck.order.length - 1) endReached = deck.at;
  deck.go(deck.at + 1);
}

let endReached = -1; // the place of the last card that was answered when no other was there

function goOn(deck) {
  const isWaiting = endReached === deck.at && deck.at < deck.order.length - 1;
  if (isWaiting) endReached = -1;
  return deck.go(isWaiting ? deck.at + 1 : deck.at);
}

// An audit until a goal plans its cards from the answers: more of them, and what is certified, before these run out.
async function continueDeck(deck) {
  const stated = document.getElementById("stated");
  if (!stated) return;
  if (deck.waiting > 1) return goOn(deck);
  const audit = deck.form.elements.audit.value;
  const next = await ask(`/api/audit/next?${new URLSearchParams({ audit })}`).catch((error) => deck.showError(error));
  if (!next?.stated) return;
  stated.textContent = next.stated;
  const added = next.keys.filter((one) => !deck.order.includes(one));
  for (const key of added) { deck.order.push(key); deck.done.push(0); }
  await deck.fetchCards(added);
  goOn(deck);
}

function note(card, deck) {
  const { own } = card.image;
  if (!own) return deck.showError(new Error("Answer first; the note is kept with the answer."));
  deck.write("Note on this pair", "It is kept with the answer.", own.note, true, (text) => answer(card, deck, own.grade, text, false));
}

new Deck("audit", draw, [
  gradeVerdict("grade the image, then go on", answer),
  [["x"], "not relevant, then go on", (card, deck) => answer(card, deck, 0)],
  [["c"], "cannot tell, then go on", (card, deck) => answer(card, deck, null)],
  [["n"], "write a note", note],
  [["o"], "the image, large", (card, deck) => deck.large(card.image.image_id, "")],
  otherGrades,
], { doneLabel: "answered" });
