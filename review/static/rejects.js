// What the rules of a build turned away: a sheet of them, the marked one large, and a person's word to let one in.
import { ask, chip, element, photo } from "./elements.js";
import { Desk } from "./desk.js";

const A_SHEET = 24;
const words = (code) => code.replaceAll("_", " ");

class Rejects extends Desk {
  reason = "";  // the last one, which is often that of the next, too

  picture(side, shown) { return `${shown.place}/${side}/${encodeURIComponent(shown.id)}`; }

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
    await this.bring(this.sheet.filter((key) => !this.cards.has(key)));
    if (at === this.at) await super.go(at);
  }

  async again() {
    if (!this.card || this.waiting || document.querySelector("dialog[open]")) return;
    await this.bring(this.sheet);
    for (const key of this.sheet) this.count(key);
    this.show();
  }

  async say(act, key) {
    await super.say(act, key);
    await this.alike(this.cards.get(key));
  }

  async undo() {
    await super.undo();
    const gone = this.cards.get("");
    this.cards.delete("");
    if (gone) this.tell(new Error(`Taken back: ${gone.gone}. This version has let it in; the next build leaves it out again.`));
    await this.alike(this.card);
  }

  // The ledger may name one thing in several rows, and a word on it is about all of them.
  async alike(card) {
    const keys = [...this.cards.values()].filter((one) => one.name === card?.name).map((one) => one.key);
    await this.bring(keys);
    keys.forEach((key) => this.count(key));
    if (this.card) this.show();
  }

  count(key) {
    const [card, place] = [this.cards.get(key), this.order.indexOf(key)];
    if (card && place >= 0) this.done[place] = Number(Boolean(card.own || card.said.length));
  }
}

function draw(card, desk) {
  return [
    element("div", { class: "rejects" }, element("div", { class: "one" }, ...marked(card, desk)), element("div", { class: "sheet" }, ...groups(desk))),
  ];
}

function marked(card, desk) {
  const figure = card.shown && element("figure", { on: { click: () => desk.large(card.shown, card.name) } },
    photo(desk.picture(1280, card.shown), card.name, {}, "cannot be shown"));
  const words_ = card.text || (card.shown ? "" : card.name);
  return [
    figure || (["picture", "image"].includes(card.kind) && element("p", { class: "quiet nowhere" }, "not at hand")),
    words_ && element("h1", { lang: card.language || null }, element("bdi", {}, words_)),
    acts(card, desk),
    card.rival && element("p", { class: "rival" }, photo(desk.picture(320, card.rival), "", {}, "not at hand"), element("span", { class: "quiet" }, "fits this one, too")),
    words_ !== card.name && element("p", { class: "quiet" }, element("bdi", {}, card.name)),
    card.detail && card.detail !== words_ && element("p", { class: "detail" }, element("bdi", {}, card.detail)),
    ...[card.own, ...card.said].filter(Boolean).map((word) => told(word, word === card.own)),
    !card.rescuable && element("p", { class: "quiet" }, "It cannot be rescued: ", card.why, "."),
    card.link && element("p", {}, element("a", { href: `/duplicates#${encodeURIComponent(card.link)}` }, "the two, side by side")),
  ].filter(Boolean);
}

function acts(card, desk) {
  return element("p", { class: "row" },
    card.rescuable && !settled(card) && button("r", card.own ? "Rescue again" : "Rescue", "main", desk), card.own && button("n", "Change the reason", "", desk),
    element("span", { class: "chips" }, chip(words(card.reason), "warm"), chip(words(card.stage)), card.bucket !== "rejected" && chip(card.bucket)));
}

const settled = (card) => card.own && !card.own.stale;

function button(key, says, kind, desk) {
  return element("button", { type: "button", class: kind, on: { click: () => desk.press(key) } }, says, " ", element("kbd", {}, key));
}

function told(word, mine) {
  return element("div", { class: "note" },
    element("p", {}, mine ? "You want it: " : element("span", {}, element("bdi", {}, word.reviewer || "nobody named"), " wants it: "), element("bdi", {}, word.note)),
    word.caption && element("p", {}, "as ", element("bdi", {}, word.caption)),
    word.stale && element("p", { class: "bad" }, "This build could not follow: ", word.stale));
}

function groups(desk) {
  const found = [];
  for (const key of desk.sheet) {
    const card = desk.cards.get(key);
    if (!card) continue;
    if (found.at(-1)?.[0].group !== card.group) found.push([]);
    found.at(-1).push(card);
  }
  return found.map((cards) => element("section", { class: `of${Math.min(cards.length, 5)}` }, heading(cards[0], desk),
    element("ul", { class: cards.some((card) => card.shown) ? "tiles" : "tiles plain" }, ...cards.map((card) => tile(card, desk)))));
}

function heading(card, desk) {
  const group = desk.queue.groups[card.group];
  const more = group.found - group.listed;
  return element("h2", {}, words(card.reason), element("span", { class: "quiet" },
    ` ${words(card.stage)} · ${group.found.toLocaleString("en")}${more ? `, of which ${group.listed.toLocaleString("en")} are here: choose the reason, or search` : ""}`));
}

function tile(card, desk) {
  const words_ = [card.own, ...card.said].filter(Boolean);
  const wanted = words_.length > 0;
  const followed = !words_.every((word) => word.stale);
  const says = card.text || card.name;
  return element("li", {}, element("button", {
    type: "button", class: ["reject", card === desk.card && "marked", wanted && "wanted"].filter(Boolean).join(" "), title: card.name,
    "aria-current": card === desk.card ? "true" : null, on: { click: () => desk.go(desk.order.indexOf(card.key)) },
  },
    card.shown && photo(desk.picture(320, card.shown), "", { loading: "lazy" }, "cannot be shown"),
    element("bdi", { lang: card.language || null }, card.shown && !card.text ? says.split("/").at(-1) : says),
    card.detail && card.detail !== says && element("span", { class: "quiet" }, element("bdi", {}, card.detail)),
    wanted && (followed ? chip("rescued", "good") : chip("not followed", "warm"))));
}

function rescue(card, desk) {
  if (!card.rescuable) return desk.tell(new Error(`It cannot be rescued: ${card.why}.`));
  if (settled(card)) return desk.tell(new Error("You have rescued it. n changes the reason, u takes your last rescue back."));
  if (card.kind !== "caption") return because(card, desk, "", true);
  return desk.write("What shall the query say?", "The caption in its own words; Enter goes on to the reason.", card.own?.caption || card.text, false, (text) => because(card, desk, text, true));
}

function because(card, desk, caption, goesOn) {
  desk.write("Why does it belong in?", "Kept with your rescue; the next build follows.", card.own?.note || desk.reason, true, (note) => {
    if (note.trim()) desk.reason = note;
    const seen = card.shown ? card.shown.id : "";
    desk.say({ key: card.key, decision: "rescue", note, caption, seen }, card.key);
    if (goesOn && note.trim() && desk.at < desk.order.length - 1) desk.go(desk.at + 1);
  });
}

const move = (step) => (_card, desk) => desk.go(desk.at + step);
new Rejects("rejects", draw, {
  r: rescue, ArrowRight: move(1), ArrowLeft: move(-1),
  n: (card, desk) => card.own ? because(card, desk, card.own.caption, false) : desk.tell(new Error("Rescue it first: r.")),
  o: (card, desk) => card.shown && desk.large(card.shown, card.name),
}, { home: "/api/rejects", pictures: "/rejects/picture", word: "rescued" });
