// Two images that count as one, side by side: the same, or not; and what becomes of their group.
import { ask, chip, element, photo, t } from "./elements.js";
import { CardQueue } from "./card_queue.js";

const MATCH_NAMES = { pixels: "same pixels", hash: "look alike", patches: "an edited copy", embedding: "similar to the embedder", person: "the same, a person decided", bytes: "same bytes" };
const DECISION_NAMES = { same: "the same", different: "not the same" };

function draw(card, queue) {
  const own = card.own?.decision;
  return [
    element("div", { class: "two" }, half(card.one, queue), half(card.other, queue)),
    element("div", { class: "verdict" },
      element("p", { class: "question" }, "Is it the same image?"),
      element("p", { class: "row" }, answer(card, queue, "same", "Same", "s"), answer(card, queue, "different", "Not the same", "d")),
      element("p", { class: "chips" }, matchChip(card), own && chip(t("you decided %(grade)s", { grade: t(DECISION_NAMES[own]) }), "good"),
        card.last_decision && card.last_decision !== own && chip(t("the last decision on it: %(decision)s", { decision: t(DECISION_NAMES[card.last_decision]) }), "warm"),
        pairing()),
      card.own?.note && element("p", { class: "note" }, element("bdi", {}, card.own.note))),
    element("div", { class: "strips" }, strip("Now", card.before, queue), strip("After the next build", card.after, queue),
      card.after.length > card.before.length && element("p", { class: "quiet" }, "What leaves a group may come into the gallery; others of the group go along with what they are nearer to.")),
  ];
}

function half(one, queue) {
  const image = photo(queue.imagePath(1280, one.image_id), one.name, {}, t("%(name)s: not at hand, or changed since", { name: one.name }));
  const figure = element("figure", { on: { click: () => queue.large(one.image_id, one.name) } }, image);
  return element("div", { class: "half" }, figure,
    element("p", { class: "quiet" }, element("bdi", {}, one.name)),
    element("p", { class: "chips" }, chip(`${one.width} × ${one.height}`), one.in_gallery ? chip("in the gallery", "good") : chip("left out")));
}

function matchChip(card) {
  if (!card.matched_by) return chip(card.before.length === 1 ? "in one group by way of others" : "in no group together");
  return chip(t(MATCH_NAMES[card.matched_by]) + (card.hash_distance === null ? "" : t(", %(bits)s bits apart", { bits: card.hash_distance })) + (card.edit ? `: ${card.edit.replaceAll("+", ", ")}` : ""));
}

const answer = (card, queue, decision, label, key) => element("button",
  { type: "button", class: "large", "aria-pressed": String(card.own?.decision === decision), on: { click: () => decide(card, queue, decision) } }, label, " ", element("kbd", {}, key));

const pairing = () => element("button", { type: "button", class: "small", on: { click: () => finder.open() } }, "Pair other images ", element("kbd", {}, "m"));

function strip(title, groups, queue) {
  return element("section", {}, element("h2", {}, title),
    element("div", { class: "groups" }, ...groups.map((group) => element("div", { class: "group" },
      ...group.images.map((id) => element("img", { src: queue.imagePath(320, id), alt: "", loading: "lazy" })),
      element("span", { class: "quiet" }, group.size === 1 ? "alone" : t("%(number)s are one", { number: group.size }))))));
}

function decide(card, queue, decision, goesOn = true, note = card.own?.note || "") {
  queue.submit({ key: card.key, decision, note }, card.key);
  if (goesOn && queue.at < queue.order.length - 1) queue.go(queue.at + 1);
}

// Brings any two images together. The first one stays marked until it has a second one, or is taken back.
class Finder {
  constructor() {
    this.first = null;
    this.search = element("input", { type: "search", maxlength: 200, placeholder: "name", "aria-label": "name of an image", on: { input: () => this.soon(), keydown: (event) => this.entered(event) } });
    this.message = element("div", { class: "first" });
    this.results = element("ul", { class: "results" });
    this.dialog = element("dialog", { id: "finder" }, element("h2", {}, "Two images that are the same"), this.message, this.search, this.results,
      element("p", { class: "row" }, element("button", { type: "button", on: { click: () => this.dialog.close() } }, "Close ", element("kbd", {}, "Esc"))));
    document.body.append(this.dialog);
  }

  open() {
    this.search.value = "";
    this.dialog.showModal();
    this.search.focus();
    this.find();
  }

  soon() { clearTimeout(this.typing); this.typing = setTimeout(() => this.find(), 200); }

  // Without a word: the two images of the card that it was opened from, if there is one.
  async find() {
    const search = this.search.value;
    let results = queue.card ? [queue.card.one, queue.card.other] : [];
    try { if (search.trim()) results = (await ask(`/api/duplicates/images?${new URLSearchParams({ search: search })}`)).images; } catch (error) { queue.showError(error); }
    if (search !== this.search.value) return;
    this.shown = results.filter((one) => one.image_id !== this.first?.image_id);
    this.draw();
  }

  draw() {
    this.message.replaceChildren(...(this.first
      ? [photo(queue.imagePath(320, this.first.image_id), this.first.name), element("p", {}, "Which is the same as ", element("bdi", {}, this.first.name), "?"), element("button", { type: "button", on: { click: () => { this.first = null; this.find(); } } }, "Another")]
      : [element("p", { class: "quiet" }, "Choose the first one. It stays marked when this is closed, so that the second can be of another pair.")]));
    this.results.replaceChildren(...(this.shown.length ? this.shown.map((one) => element("li", {}, element("button", { type: "button", on: { click: () => this.choose(one) } },
      photo(queue.imagePath(320, one.image_id), "", { loading: "lazy" }, "not at hand"), element("bdi", {}, one.name)))) : [element("li", { class: "quiet none" }, this.search.value.trim() ? "No image has that name." : "Write a part of its name.")]));
  }

  async entered(event) {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    clearTimeout(this.typing);
    await this.find(); // a quick hand means what it wrote
    if (this.shown.length) this.choose(this.shown[0]);
  }

  async choose(one) {
    if (!this.first) {
      this.first = one;
      this.search.value = "";
      this.search.focus();
      return this.find();
    }
    try {
      const { key } = await ask(`/api/duplicates/pair?${new URLSearchParams({ one: this.first.image_id, other: one.image_id })}`);
      this.first = null;
      this.dialog.close();
      return queue.insert(key);
    } catch (error) { return queue.showError(error); }
  }
}

const finder = new Finder();
const queue = new CardQueue("duplicates", draw, {
  s: (card, queue) => decide(card, queue, "same"),
  d: (card, queue) => decide(card, queue, "different"),
  o: (card, queue) => queue.large(card.one.image_id, card.one.name),
  p: (card, queue) => queue.large(card.other.image_id, card.other.name),
  n: (card, queue) => card.own
    ? queue.write("Note on these two", "It is kept with your decision.", card.own.note, true, (text) => decide(card, queue, card.own.decision, false, text))
    : queue.showError(new Error("Decide first: s or d. Then write why.")),
}, { home: "/api/duplicates", images: "/duplicates/image", always: { m: () => finder.open() }, beside: [pairing()] });
