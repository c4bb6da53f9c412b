// Two pictures that count as one, side by side: the same, or not; and what becomes of their group.
import { ask, chip, element, photo } from "./elements.js";
import { Desk } from "./desk.js";

const WAYS = { pixels: "same pixels", hash: "look alike", embedding: "similar to the embedder", person: "the same, a person said", bytes: "same bytes" };
const SAID = { same: "the same", different: "not the same" };

function draw(card, desk) {
  const own = card.own?.decision;
  return [
    element("div", { class: "two" }, half(card.one, desk), half(card.other, desk)),
    element("div", { class: "verdict" },
      element("p", { class: "question" }, "Is it the same picture?"),
      element("p", { class: "row" }, answer(card, desk, "same", "Same", "s"), answer(card, desk, "different", "Not the same", "d")),
      element("p", { class: "chips" }, how(card), own && chip(`you said ${SAID[own]}`, "good"),
        card.said && card.said !== own && chip(`the last word on it is ${SAID[card.said]}`, "warm"),
        pairing()),
      card.own?.note && element("p", { class: "note" }, element("bdi", {}, card.own.note))),
    element("div", { class: "strips" }, strip("Now", card.before, desk), strip("After the next build", card.after, desk),
      card.after.length > card.before.length && element("p", { class: "quiet" }, "What leaves a group may come into the gallery; others of the group go along with what they are nearer to.")),
  ];
}

function half(one, desk) {
  const image = photo(desk.picture(1280, one.image_id), one.name, {}, `${one.name}: not at hand, or changed since`);
  const figure = element("figure", { on: { click: () => desk.large(one.image_id, one.name) } }, image);
  return element("div", { class: "half" }, figure,
    element("p", { class: "quiet" }, element("bdi", {}, one.name)),
    element("p", { class: "chips" }, chip(`${one.width} × ${one.height}`), one.inside ? chip("in the gallery", "good") : chip("left out")));
}

function how(card) {
  if (!card.way) return chip(card.before.length === 1 ? "in one group by way of others" : "in no group together");
  return chip(WAYS[card.way] + (card.bits === null ? "" : `, ${card.bits} ${card.bits === 1 ? "bit" : "bits"} apart`));
}

const answer = (card, desk, decision, says, key) => element("button",
  { type: "button", class: "large", "aria-pressed": String(card.own?.decision === decision), on: { click: () => say(card, desk, decision) } }, says, " ", element("kbd", {}, key));

const pairing = () => element("button", { type: "button", class: "small", on: { click: () => finder.open() } }, "Pair other pictures ", element("kbd", {}, "m"));

function strip(title, groups, desk) {
  return element("section", {}, element("h2", {}, title),
    element("div", { class: "boxes" }, ...groups.map((group) => element("div", { class: "box" },
      ...group.pictures.map((id) => element("img", { src: desk.picture(320, id), alt: "", loading: "lazy" })),
      element("span", { class: "quiet" }, group.size === 1 ? "alone" : `${group.size} are one`)))));
}

function say(card, desk, decision, goesOn = true, note = card.own?.note || "") {
  desk.say({ key: card.key, decision, note }, card.key);
  if (goesOn && desk.at < desk.order.length - 1) desk.go(desk.at + 1);
}

// Brings any two pictures together. The first one stays marked until it has a second one, or is taken back.
class Finder {
  constructor() {
    this.first = null;
    this.search = element("input", { type: "search", maxlength: 200, placeholder: "name", "aria-label": "name of a picture", on: { input: () => this.soon(), keydown: (event) => this.entered(event) } });
    this.says = element("div", { class: "first" });
    this.found = element("ul", { class: "found" });
    this.dialog = element("dialog", { id: "finder" }, element("h2", {}, "Two pictures that are the same"), this.says, this.search, this.found,
      element("p", { class: "row" }, element("button", { type: "button", on: { click: () => this.dialog.close() } }, "Close ", element("kbd", {}, "Esc"))));
    document.body.append(this.dialog);
  }

  open() {
    this.search.value = "";
    this.dialog.showModal();
    this.search.focus();
    this.look();
  }

  soon() { clearTimeout(this.typing); this.typing = setTimeout(() => this.look(), 200); }

  // Without a word: the two pictures of the card that it was opened from, if there is one.
  async look() {
    const word = this.search.value;
    let found = desk.card ? [desk.card.one, desk.card.other] : [];
    try { if (word.trim()) found = (await ask(`/api/duplicates/pictures?${new URLSearchParams({ search: word })}`)).pictures; } catch (error) { desk.tell(error); }
    if (word !== this.search.value) return;
    this.shown = found.filter((one) => one.image_id !== this.first?.image_id);
    this.draw();
  }

  draw() {
    this.says.replaceChildren(...(this.first
      ? [photo(desk.picture(320, this.first.image_id), this.first.name), element("p", {}, "Which is the same as ", element("bdi", {}, this.first.name), "?"), element("button", { type: "button", on: { click: () => { this.first = null; this.look(); } } }, "Another")]
      : [element("p", { class: "quiet" }, "Choose the first one. It stays marked when this is closed, so that the second can be of another pair.")]));
    this.found.replaceChildren(...(this.shown.length ? this.shown.map((one) => element("li", {}, element("button", { type: "button", on: { click: () => this.choose(one) } },
      photo(desk.picture(320, one.image_id), "", { loading: "lazy" }, "not at hand"), element("bdi", {}, one.name)))) : [element("li", { class: "quiet none" }, this.search.value.trim() ? "No picture has that name." : "Write a part of its name.")]));
  }

  async entered(event) {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    clearTimeout(this.typing);
    await this.look(); // a quick hand means what it wrote
    if (this.shown.length) this.choose(this.shown[0]);
  }

  async choose(one) {
    if (!this.first) {
      this.first = one;
      this.search.value = "";
      this.search.focus();
      return this.look();
    }
    try {
      const { key } = await ask(`/api/duplicates/pair?${new URLSearchParams({ one: this.first.image_id, other: one.image_id })}`);
      this.first = null;
      this.dialog.close();
      return desk.insert(key);
    } catch (error) { return desk.tell(error); }
  }
}

const finder = new Finder();
const desk = new Desk("duplicates", draw, {
  s: (card, desk) => say(card, desk, "same"),
  d: (card, desk) => say(card, desk, "different"),
  o: (card, desk) => desk.large(card.one.image_id, card.one.name),
  p: (card, desk) => desk.large(card.other.image_id, card.other.name),
  n: (card, desk) => card.own
    ? desk.write("Note on these two", "It is kept with your decision.", card.own.note, true, (text) => say(card, desk, card.own.decision, false, text))
    : desk.tell(new Error("Decide first: s or d. Then write why.")),
}, { home: "/api/duplicates", pictures: "/duplicates/picture", always: { m: () => finder.open() }, beside: [pairing()] });
