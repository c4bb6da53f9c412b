// One query and its ground truth: a grid of pictures, each with its grade.
import { chip, element, photo } from "./elements.js";
import { Desk, settings } from "./desk.js";
import { head, grading } from "./parts.js";

let marked = 0;
let of = null; // the card that the mark is on

function draw(card, desk) {
  if (of !== card.key) { of = card.key; marked = 0; }
  const shown = card.pictures.length;
  const grid = element("ul", { class: "grid" }, ...card.pictures.map((one, place) => tile(card, one, place, desk)));
  const more = shown < card.there && element("button", { type: "button", class: "more", on: { click: () => further(card, desk) } }, `${card.there - shown} more pictures`);
  return [
    head(card),
    element("p", { class: "row acts" },
      act("a", "All right", "main", desk), act("x", card.own?.decision === "drop" ? "Dropped" : "Drop query", "", desk), act("e", "Edit", "", desk), act("n", "Note", "", desk)),
    shown ? grid : element("p", { class: "quiet empty" }, "No picture was ever judged for this query."),
    more,
  ];
}

function act(key, name, kind, desk) {
  return element("button", { type: "button", class: kind, on: { click: () => desk.press(key) } }, name, " ", element("kbd", {}, key));
}

function tile(card, one, place, desk) {
  const mark = () => { marked = place; remark(); };
  const open = () => { mark(); desk.large(one.image_id, one.name); };
  const image = photo(desk.picture(320, one.image_id), one.name, { loading: place < 24 ? null : "lazy", decoding: "async" });
  return element("li", { class: `tile ${place === marked ? "marked" : ""} ${one.own ? "own" : ""} g${one.grade ?? "-"}` },
    element("button", { type: "button", class: "frame", title: `${one.name}: large (o)`, on: { click: open } }, image),
    grading(one, (grade) => { mark(); say(card, one, grade, desk); }),
    element("p", { class: "why", title: one.evidence }, one.score !== null && chip("not judged", "warm"), element("bdi", {}, one.evidence || one.name)));
}

function remark() {
  document.querySelectorAll(".tile").forEach((one, place) => one.classList.toggle("marked", place === marked));
  document.querySelectorAll(".tile")[marked]?.scrollIntoView({ block: "nearest" });
}

function say(card, one, grade, desk) {
  const act = grade === null ? { decision: "keep" } : { decision: "grade", relevance: grade };
  return desk.say({ query_id: card.query_id, text: card.text, image_id: one.image_id, ...act }, card.key);
}

function grade(card, desk, key) {
  const one = card.pictures[marked];
  const value = key === " " ? null : Number(key);
  if (!one) return;
  if (value !== null && !settings.grades.includes(value)) return desk.tell(new Error(`The grades of this set are ${settings.grades.join(", ")}.`));
  say(card, one, value, desk);
  if (marked < card.pictures.length - 1) { marked += 1; remark(); }
}

async function further(card, desk) {
  const answer = await fetch(`/api/queries/pictures?key=${encodeURIComponent(card.key)}&start=${card.pictures.length}`);
  if (!answer.ok) return desk.tell(new Error(await answer.text()));
  card.pictures.push(...(await answer.json()).pictures);
  desk.show();
}

function move(step) {
  return (card) => { marked = Math.min(Math.max(marked + step, 0), card.pictures.length - 1); remark(); };
}

function whole(decision) {
  return (card, desk) => {
    const accept = decision === "keep" ? card.pictures.map((one) => one.image_id) : [];
    for (let start = 0; start < Math.max(accept.length, 1); start += 500) {
      desk.say({ query_id: card.query_id, text: card.text, decision, accept: accept.slice(start, start + 500) }, card.key);
    }
    desk.go(desk.at + 1);
  };
}

function edit(card, desk) {
  desk.write("Edit the query", "Enter saves; judgments made from here on are of the new text.", card.text, false,
    (text) => desk.say({ query_id: card.query_id, text: card.text, decision: "edit", new_text: text }, card.key));
}

function note(card, desk) {
  desk.write("Note on the query", "It is kept with the decision: dropped if you dropped it, else kept.", card.own?.note || "", true,
    (text) => desk.say({ query_id: card.query_id, text: card.text, decision: card.own?.decision === "drop" ? "drop" : "keep", note: text }, card.key));
}

const keys = {
  a: whole("keep"), x: whole("drop"), e: edit, n: note, " ": grade,
  ArrowRight: move(1), ArrowLeft: move(-1),
  o: (card, desk) => card.pictures[marked] && desk.large(card.pictures[marked].image_id, card.pictures[marked].name),
};
for (const value of "0123456789") keys[value] = grade;
new Desk("queries", draw, keys);
