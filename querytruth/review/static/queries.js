// One query and its ground truth: a grid of images, each with its grade.
import { ask, chip, element, keyButton, photo, t } from "./elements.js";
import { toggleBoxes, withBoxes } from "./boxes.js";
import { CardQueue, settings } from "./card_queue.js";
import { ImageFinder } from "./image_finder.js";
import { decidedTexts, differing, editText, gradeOf, grading, head, leaveText, markNextText, shownText } from "./parts.js";

let marked = 0;
let markedKey = null; // of the card that the mark is on

function draw(card, queue) {
  if (markedKey !== card.key) { markedKey = card.key; marked = 0; }
  const shown = card.images.length;
  const grid = element("ul", { class: `grid ${shown > 8 ? "" : shown > 3 ? "some" : "few"}` }, ...card.images.map((one, place) => tile(card, one, place, queue)));
  const more = shown < card.image_total && element("button", { type: "button", class: "more", on: { click: () => showMore(card, queue) } }, t("%(number)s more images", { number: card.image_total - shown }));
  return [
    head(card, queue),
    element("p", { class: "row acts" },
      keyButton("a", "All right", "main", queue), keyButton("x", shownText(card).own?.decision === "drop" ? "Dropped" : "Drop query", "", queue),
      keyButton("e", "Edit", "", queue), keyButton("n", "Note", "", queue), keyButton("i", "Add an image", "", queue)),
    shown ? grid : element("p", { class: "quiet empty" }, "No image was ever judged for this query."),
    more,
  ];
}

function tile(card, one, place, queue) {
  const mark = () => { marked = place; remark(); };
  const open = () => { mark(); queue.large(one.image_id, one.name, one.boxes); };
  const image = photo(queue.imagePath(card.images.length > 3 ? 320 : 1280, one.image_id), one.name, { loading: place < 24 ? null : "lazy", decoding: "async" });
  return element("li", { class: `tile ${place === marked ? "marked" : ""} ${one.own ? "own" : ""} g${one.grade ?? "-"}` },
    element("button", { type: "button", class: "frame", title: t("%(name)s: large (o)", { name: one.name }), on: { click: open } }, withBoxes(image, one.boxes)),
    grading(one, (grade) => { mark(); decide(card, one, grade, queue); }, gradeOf(card, one)),
    element("div", { class: "why", title: one.evidence }, one.is_source && chip("the caption was written of it", "source"), one.relevance === null && chip(one.own ? "added" : "not judged", "warm"),
      differing(card, one), element("bdi", {}, one.evidence || one.name)));
}

function remark() {
  document.querySelectorAll(".tile").forEach((one, place) => one.classList.toggle("marked", place === marked));
  document.querySelectorAll(".tile")[marked]?.scrollIntoView({ block: "nearest" });
}

function decide(card, one, grade, queue) {
  const act = grade === null ? { decision: "keep" } : { decision: "grade", relevance: grade };
  return queue.submit({ ...decidedTexts(card), image_id: one.image_id, ...act }, card.key);
}

function grade(card, queue, key) {
  const one = card.images[marked];
  const value = key === " " ? null : Number(key);
  if (!one) return;
  if (value !== null && !settings.grades.includes(value)) return queue.showError(new Error(t("The grades of this set are %(grades)s.", { grades: settings.grades.join(", ") })));
  decide(card, one, value, queue);
  if (marked < card.images.length - 1) { marked += 1; remark(); }
}

async function showMore(card, queue) {
  try {
    const { images } = await ask(`/api/queries/images?${new URLSearchParams({ key: card.key, start: card.images.length })}`);
    card.images.push(...images);
  } catch (error) { return queue.showError(error); }
  queue.show();
}

function move(step) {
  return (card) => { marked = Math.min(Math.max(marked + step, 0), card.images.length - 1); remark(); };
}

function whole(decision) {
  return (card, queue) => {
    const accept = decision === "keep" ? card.images.map((one) => one.image_id) : [];
    for (let start = 0; start < Math.max(accept.length, 1); start += 500) {
      queue.submit({ ...decidedTexts(card), decision, accept: accept.slice(start, start + 500) }, card.key);
    }
    if (decision === "drop" && leaveText(card)) queue.show(); else queue.go(queue.at + 1);
  };
}

const edit = (card, queue) => editText(card, queue, (act) => queue.submit(act, card.key));

function note(card, queue) {
  const own = shownText(card).own;
  queue.write("Note on the query", "It is kept with the decision: dropped if you dropped it, else kept.", own?.note || "", true,
    (text) => queue.submit({ ...decidedTexts(card), decision: own?.decision === "drop" ? "drop" : "keep", note: text }, card.key));
}

const finder = new ImageFinder(decide);
const keys = {
  i: (card, queue) => finder.open(card, queue),
  s: (card, queue) => card.images[marked] && finder.findSimilar(card, queue, card.images[marked]),
  a: whole("keep"), x: whole("drop"), e: edit, n: note, t: markNextText, " ": grade,
  ArrowRight: move(1), ArrowLeft: move(-1),
  o: (card, queue) => {
    const one = card.images[marked];
    if (one) queue.large(one.image_id, one.name, one.boxes);
  },
  b: toggleBoxes,
};
for (const value of "0123456789") keys[value] = grade;
finder.queue = new CardQueue("queries", draw, keys);
