// One query and its ground truth: a grid of images, each with its grade.
import { ask, chip, element, keyButton, photo, t } from "./elements.js";
import { withBoxes } from "./boxes.js";
import { Deck } from "./deck.js";
import { ImageFinder } from "./finder.js";
import { boxesVerdict, decidedTexts, differing, editText, gradeOf, gradeVerdict, grading, head, leaveText, otherGrades, shownText, textVerdict } from "./parts.js";

let marked = 0;
let markedKey = null; // of the card that the mark is on

function draw(card, deck) {
  if (markedKey !== card.key) { markedKey = card.key; marked = 0; }
  const shown = card.images.length;
  const grid = element("ul", { class: `grid ${shown > 8 ? "" : shown > 3 ? "some" : "few"}` }, ...card.images.map((one, place) => tile(card, one, place, deck)));
  const more = shown < card.image_total && element("button", { type: "button", class: "more", on: { click: () => showMore(card, deck) } }, t("%(number)s more images", { number: card.image_total - shown }));
  return [
    head(card, deck),
    element("p", { class: "row acts" },
      keyButton("a", "All right", "main", deck), keyButton("x", shownText(card).own?.decision === "drop" ? "Dropped" : "Drop query", "", deck),
      keyButton("e", "Edit", "", deck), keyButton("n", "Note", "", deck), keyButton("i", "Add an image", "", deck)),
    shown ? grid : element("p", { class: "quiet empty" }, "No image was ever judged for this query."),
    more,
  ];
}

function tile(card, one, place, deck) {
  const mark = () => { marked = place; remark(); };
  const open = () => { mark(); deck.large(one.image_id, one.name, one.boxes); };
  const image = photo(deck.imagePath(card.images.length > 3 ? 320 : 1280, one.image_id), one.name, { loading: place < 24 ? null : "lazy", decoding: "async" });
  return element("li", { class: `tile ${place === marked ? "marked" : ""} ${one.own ? "own" : ""} g${one.grade ?? "-"}` },
    element("button", { type: "button", class: "frame", title: t("%(name)s: large (o)", { name: one.name }), on: { click: open } }, withBoxes(image, one.boxes)),
    grading(one, (grade) => { mark(); decide(card, one, grade, deck); }, gradeOf(card, one)),
    element("div", { class: "why", title: one.evidence }, one.is_source && card.images.length > 1 && chip("the caption was written of it", "source"), one.relevance === null && chip(one.own ? "added" : "not judged", "warm"),
      differing(card, one), element("bdi", {}, one.evidence || one.name)));
}

function remark() {
  document.querySelectorAll(".tile").forEach((one, place) => one.classList.toggle("marked", place === marked));
  document.querySelectorAll(".tile")[marked]?.scrollIntoView({ block: "nearest" });
}

function decide(card, one, grade, deck) {
  const act = grade === null ? { decision: "keep" } : { decision: "grade", relevance: grade };
  return deck.submit({ ...decidedTexts(card), image_id: one.image_id, ...act }, card.key);
}

function grade(card, deck, value) {
  const one = card.images[marked];
  if (!one) return;
  decide(card, one, value, deck);
  if (marked < card.images.length - 1) { marked += 1; remark(); }
}

async function showMore(card, deck) {
  try {
    const { images } = await ask(`/api/queries/images?${new URLSearchParams({ key: card.key, start: card.images.length })}`);
    card.images.push(...images);
  } catch (error) { return deck.showError(error); }
  deck.show();
}

function move(step) {
  return (card) => { marked = Math.min(Math.max(marked + step, 0), card.images.length - 1); remark(); };
}

function whole(decision) {
  return (card, deck) => {
    const accept = decision === "keep" ? card.images.map((one) => one.image_id) : [];
    for (let start = 0; start < Math.max(accept.length, 1); start += 500) {
      deck.submit({ ...decidedTexts(card), decision, accept: accept.slice(start, start + 500) }, card.key);
    }
    if (decision === "drop" && leaveText(card)) deck.show(); else deck.go(deck.at + 1);
  };
}

function note(card, deck) {
  const own = shownText(card).own;
  deck.write("Note on the query", "It is kept with the decision: dropped if you dropped it, else kept.", own?.note || "", true,
    (text) => deck.submit({ ...decidedTexts(card), decision: own?.decision === "drop" ? "drop" : "keep", note: text }, card.key));
}

// The marked image, if there is one.
const onMarked = (act) => (card, deck) => card.images[marked] && act(card, deck, card.images[marked]);

const finder = new ImageFinder(decide);
finder.deck = new Deck("queries", draw, [
  [["a"], "all is right as it stands: accept the query and the images shown, then go on", whole("keep")],
  [["x"], "drop the query, then go on", whole("drop")],
  [["e"], "edit the query's text", (card, deck) => editText(card, deck, (act) => deck.submit(act, card.key))],
  [["n"], "write a note", note],
  textVerdict,
  boxesVerdict,
  [["i"], "add an image to the query: by name, label, caption or file; a file can be dropped onto the page, too", (card) => finder.open(card)],
  [["s"], "images similar to the marked one", onMarked((card, _deck, one) => finder.findSimilar(card, one))],
  [["ArrowLeft"], "", move(-1)],
  [["ArrowRight", "ArrowLeft"], "mark an image", move(1)],
  gradeVerdict("grade the marked image, and mark the next", grade),
  [[" "], "the marked image's grade is right", (card, deck) => grade(card, deck, null)],
  [["o"], "the image, large", onMarked((_card, deck, one) => deck.large(one.image_id, one.name, one.boxes))],
  otherGrades,
]);
