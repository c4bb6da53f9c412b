// What the views that judge images share.
import { chip, element, named, t } from "./elements.js";
import { toggleBoxes } from "./boxes.js";
import { settings } from "./deck.js";

export const meaning = (grade) => t(settings.meanings[grade] || (grade === 0 ? "not relevant" : "relevant"));

const DECISION_NAMES = { keep: "kept by you", drop: "dropped by you", edit: "edited by you" };

// A card has all texts that ask the same. What is decided is for all of them, or for the one that is marked.
const mark = { key: null, place: -1 };

const markedPlace = (card) => (mark.key === card.queries[0].query_id && card.queries.length > 1 ? mark.place : -1);

export const shownText = (card) => card.queries[Math.max(markedPlace(card), 0)];

export function markText(card, deck, place) {
  Object.assign(mark, { key: card.queries[0].query_id, place: place === markedPlace(card) ? -1 : place });
  deck.show();
}

export const markNextText = (card, deck) => {
  if (card.queries.length > 1) markText(card, deck, markedPlace(card) + 1 < card.queries.length ? markedPlace(card) + 1 : markedPlace(card));
};

// The texts that an action is for, as they were seen.
export function decidedTexts(card) {
  const seen = ({ query_id, text }) => ({ query_id, text });
  if (markedPlace(card) >= 0) return seen(shownText(card));
  return { ...seen(card.queries[0]), others: card.queries.slice(1).map(seen) };
}

// After a text was dropped, the next one is marked; false where it was the last.
export function leaveText(card) {
  if (markedPlace(card) < 0 || markedPlace(card) + 1 >= card.queries.length) return false;
  mark.place += 1;
  return true;
}

// Edits the text that is marked. Where the truth was judged by the text, the person says whether it still holds.
export function editText(card, deck, decide) {
  const { others, ...one } = decidedTexts(card);
  if (others?.length) return deck.showError(new Error("One text is edited at a time: mark it first (t)."));
  const rests = shownText(card).rests_on_text;
  deck.write("Edit the query", rests ? "Enter saves. The images that were right for the old text wait for a new judgment." : "Enter saves.", one.text, false,
    (text, keeps) => decide({ ...one, decision: "edit", new_text: text, keeps_truth: keeps }), rests && "The meaning is the same: the images stay right");
}

export const gradeOf = (card, one) => (one.grades ? one.grades[shownText(card).query_id] : one.grade);

export function head(card, deck) {
  const chips = [card.labels.length > 0 && t("level %(level)s", { level: card.level }), card.topic, ...card.labels].filter(Boolean).map((name) => chip(named(name)));
  const doubts = card.flags.map((name) => chip(name.replaceAll("_", " "), "warm"));
  const [first, several] = [card.queries[0], card.queries.length > 1];
  return element("div", { class: "head" },
    element("h1", { lang: first.language }, element("bdi", {}, first.text)),
    !several && was(first),
    element("p", { class: "chips" }, !several && ownChip(first), ...doubts, !several && chip(first.language), ...chips),
    several && texts(card, deck),
    ...(several ? [] : notes(first)));
}

function texts(card, deck) {
  const place = markedPlace(card);
  const about = place < 0 ? "%(number)s texts ask the same: what you decide holds for all of them." : "%(number)s texts ask the same. What you decide now is for the marked one.";
  return element("div", { class: "texts" },
    element("p", { class: "quiet" }, `${t(about, { number: card.queries.length })} `, element("kbd", {}, "t"), " marks one."),
    element("ul", {}, ...card.queries.map((one, n) => element("li", {},
      element("button", { type: "button", class: "text-mark", "aria-pressed": String(n === place), on: { click: () => markText(card, deck, n) } },
        chip(`${one.language} ${t(one.style)}`), element("bdi", { lang: one.language }, one.text)),
      ownChip(one), was(one), ...notes(one)))));
}

const ownChip = (one) => one.own && chip(DECISION_NAMES[one.own.decision], one.own.decision === "drop" ? "bad" : "good");

const was = (one) => one.text !== one.published && element("p", { class: "quiet" }, "was: ", element("bdi", { lang: one.language }, one.published));

const notes = (one) => [noteOf(one.own), disputed(one.disputed_by)];

export function disputed(decisions) {
  if (!decisions.length) return null;
  return element("p", { class: "note" }, "In dispute: ", ...decisions.map((one) => chip(named(`${one.reviewer || t("nobody named")}: ${one.verdict}`), "warm")));
}

// Where texts that ask the same have different grades: which has which.
export function differing(card, one) {
  if (!one.grades) return null;
  return element("p", { class: "chips" }, ...card.queries.map((text) => chip(named(`${text.text}: ${one.grades[text.query_id] ?? t("not judged")}`), "warm")));
}

// Where only right and wrong are told apart, the buttons say so; the key stands beside.
const gradeName = (grade) => (settings.grades.length === 2 ? t(grade ? "Yes" : "No") : "");

export function grading(one, decide, given = one.grade) {
  const buttons = settings.grades.map((grade) => element("button", {
    type: "button", class: `g${grade}`, "aria-pressed": String(given === grade), title: `${grade}: ${meaning(grade)}`,
    on: { click: (event) => { event.stopPropagation(); decide(grade); } },
  }, gradeName(grade), element(gradeName(grade) ? "kbd" : "span", {}, String(grade))));
  return element("div", { class: "grading", role: "group", "aria-label": t("grade of %(name)s", { name: one.name }) }, ...buttons);
}

// The keys of the grades, with what they do.
export const gradeVerdict = (what, act) => [[...settings.grades].reverse().map(String), what, (card, deck, key) => act(card, deck, Number(key))];

// The other digits, which say what the grades are.
export const otherGrades = [[..."0123456789"], "", (_card, deck) => deck.showError(new Error(t("The grades of this set are %(grades)s.", { grades: settings.grades.join(", ") })))];

export const textVerdict = [["t"], "mark one of several texts that ask the same: what you do is for it alone", markNextText];
export const boxesVerdict = [["b"], "hide or show the boxes of the query's labels", toggleBoxes];

// An image, large, and beside it a question with its answers.
export const pair = (figure, question, ...answers) => element("div", { class: "pair" },
  element("figure", {}, figure), element("div", { class: "side" }, element("p", { class: "question" }, question), ...answers));

export const meanings = () => element("dl", { class: "meanings" }, ...settings.grades.map((grade) => element("div", {}, element("dt", {}, String(grade)), element("dd", {}, meaning(grade)))));

export const noteOf = (own) => own?.note && element("p", { class: "note" }, element("bdi", {}, own.note));
