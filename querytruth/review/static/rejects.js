// What the rules of a build rejected: a sheet of it, the marked item large, and a person's override.
import { ask, chip, element, keyButton, photo, t } from "./elements.js";
import { CardQueue } from "./card_queue.js";

const A_SHEET = 24;
const words = (code) => t(code.replaceAll("_", " "));

class Rejects extends CardQueue {
  reason = "";  // the last one, which is often that of the next, too

  imagePath(side, shown) { return `${shown.path}/${side}/${encodeURIComponent(shown.id)}`; }

  async load(wanted = null) {
    this.narrow();
    await super.load(wanted);
  }

  // Only the reasons that the stage has.
  narrow() {
    const { stage, reason } = this.form.elements;
    if (!stage || !reason) return;
    for (const option of reason.options) option.hidden = option.disabled = Boolean(stage.value && option.value) && !option.dataset.stages.split("|").includes(stage.value);
    if (reason.selectedOptions[0]?.disabled) reason.value = "";
  }

  get sheet() {
    const first = this.at - this.at % A_SHEET;
    return this.order.slice(first, first + A_SHEET);
  }

  async go(to) {
    const at = this.at = Math.min(Math.max(to, 0), this.order.length - 1);
    await this.fetchCards(this.sheet.filter((key) => !this.cards.has(key)));
    if (at === this.at) await super.go(at);
  }

  async refresh() {
    if (!this.card || this.waiting || document.querySelector("dialog[open]")) return;
    await this.fetchCards(this.sheet);
    for (const key of this.sheet) this.count(key);
    this.show();
  }

  async submit(action, key) {
    await super.submit(action, key);
    await this.refreshSameName(this.cards.get(key));
  }

  async undo() {
    await super.undo();
    const gone = this.cards.get("");
    this.cards.delete("");
    if (gone) this.showError(new Error(t("Taken back: %(name)s. This version has let it in; the next build leaves it out again.", { name: gone.undone_name })));
    await this.refreshSameName(this.card);
  }

  // The ledger may name one thing in several rows, and an override is about all of them.
  async refreshSameName(card) {
    const keys = [...this.cards.values()].filter((one) => one.name === card?.name).map((one) => one.key);
    await this.fetchCards(keys);
    keys.forEach((key) => this.count(key));
    if (this.card) this.show();
  }

  count(key) {
    const [card, place] = [this.cards.get(key), this.order.indexOf(key)];
    if (card && place >= 0) this.done[place] = Number(Boolean(card.own || card.other_overrides.length));
  }
}

function draw(card, queue) {
  return [
    element("div", { class: "rejects" }, element("div", { class: "one" }, ...marked(card, queue)), element("div", { class: "sheet" }, ...groups(queue))),
  ];
}

function marked(card, queue) {
  const figure = card.shown && element("figure", { on: { click: () => queue.large(card.shown, card.name) } },
    photo(queue.imagePath(1280, card.shown), card.name, {}, "cannot be shown"));
  const title = card.text || (card.shown ? "" : card.name);
  return [
    figure || (card.kind === "image" && element("p", { class: "quiet nowhere" }, "not at hand")),
    title && element("h1", { lang: card.language || null }, element("bdi", {}, title)),
    acts(card, queue),
    card.confusable && element("p", { class: "confusable" }, photo(queue.imagePath(320, card.confusable), "", {}, "not at hand"), element("span", { class: "quiet" }, "fits this one, too")),
    title !== card.name && element("p", { class: "quiet" }, element("bdi", {}, card.name)),
    card.detail && card.detail !== title && element("p", { class: "detail" }, element("bdi", {}, card.detail)),
    ...[card.own, ...card.other_overrides].filter(Boolean).map((override) => overrideNote(override, override === card.own)),
    !card.overridable && element("p", { class: "quiet" }, t("It cannot be rescued: %(why)s.", { why: t(card.why) })),
    card.link && element("p", {}, element("a", { href: `/duplicates#${encodeURIComponent(card.link)}` }, "the two, side by side")),
  ].filter(Boolean);
}

function acts(card, queue) {
  return element("p", { class: "row" },
    card.overridable && !isOverridden(card) && keyButton("r", card.own ? "Rescue again" : "Rescue", "main", queue), card.own && keyButton("n", "Change the reason", "", queue),
    element("span", { class: "chips" }, chip(words(card.reason), "warm"), chip(words(card.stage)), card.bucket !== "rejected" && chip(card.bucket)));
}

const isOverridden = (card) => card.own && !card.own.stale;

function overrideNote(override, isOwn) {
  return element("div", { class: "note" },
    element("p", {}, isOwn ? "You want it: " : element("span", {}, element("bdi", {}, override.reviewer || "nobody named"), " wants it: "), element("bdi", {}, override.note)),
    override.caption && element("p", {}, "as ", element("bdi", {}, override.caption)),
    override.stale && element("p", { class: "bad" }, "This build could not follow: ", override.stale));
}

function groups(queue) {
  const sections = [];
  for (const key of queue.sheet) {
    const card = queue.cards.get(key);
    if (!card) continue;
    if (sections.at(-1)?.[0].group !== card.group) sections.push([]);
    sections.at(-1).push(card);
  }
  return sections.map((cards) => element("section", { class: `of${Math.min(cards.length, 5)}` }, heading(cards[0], queue),
    element("ul", { class: cards.some((card) => card.shown) ? "tiles" : "tiles plain" }, ...cards.map((card) => tile(card, queue)))));
}

function heading(card, queue) {
  const group = queue.response.groups[card.group];
  const more = group.size - group.listed;
  return element("h2", {}, words(card.reason), element("span", { class: "quiet" },
    ` ${words(card.stage)} · ${group.size.toLocaleString("en")}${more ? t(", of which %(number)s are here: choose the reason, or search", { number: group.listed.toLocaleString("en") }) : ""}`));
}

function tile(card, queue) {
  const overrides = [card.own, ...card.other_overrides].filter(Boolean);
  const wanted = overrides.length > 0;
  const followed = !overrides.every((override) => override.stale);
  const label = card.text || card.name;
  return element("li", {}, element("button", {
    type: "button", class: ["reject", card === queue.card && "marked", wanted && "wanted"].filter(Boolean).join(" "), title: card.name,
    "aria-current": card === queue.card ? "true" : null, on: { click: () => queue.go(queue.order.indexOf(card.key)) },
  },
    card.shown && photo(queue.imagePath(320, card.shown), "", { loading: "lazy" }, "cannot be shown"),
    element("bdi", { lang: card.language || null }, card.shown && !card.text ? label.split("/").at(-1) : label),
    card.detail && card.detail !== label && element("span", { class: "quiet" }, element("bdi", {}, card.detail)),
    wanted && (followed ? chip("rescued", "good") : chip("not followed", "warm"))));
}

function rescue(card, queue) {
  if (!card.overridable) return queue.showError(new Error(t("It cannot be rescued: %(why)s.", { why: t(card.why) })));
  if (isOverridden(card)) return queue.showError(new Error("You have rescued it. n changes the reason, u takes your last rescue back."));
  if (card.kind !== "caption") return askReason(card, queue, "", true);
  return queue.write("What shall the query say?", "The caption in its own words; Enter goes on to the reason.", card.own?.caption || card.text, false, (text) => askReason(card, queue, text, true));
}

function askReason(card, queue, caption, goesOn) {
  queue.write("Why does it belong in?", "Kept with your rescue; the next build follows.", card.own?.note || queue.reason, true, (note) => {
    if (note.trim()) queue.reason = note;
    const seen = card.shown ? card.shown.id : "";
    queue.submit({ key: card.key, decision: "rescue", note, caption, seen }, card.key);
    if (goesOn && note.trim() && queue.at < queue.order.length - 1) queue.go(queue.at + 1);
  });
}

const move = (step) => (_card, queue) => queue.go(queue.at + step);
new Rejects("rejects", draw, {
  r: rescue, ArrowRight: move(1), ArrowLeft: move(-1),
  n: (card, queue) => card.own ? askReason(card, queue, card.own.caption, false) : queue.showError(new Error("Rescue it first: r.")),
  o: (card, queue) => card.shown && queue.large(card.shown, card.name),
}, { home: "/api/rejects", images: "/rejects/image", doneLabel: "rescued" });
