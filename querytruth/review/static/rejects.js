// What the rules of a build rejected: a sheet of it, the marked item large, and a person's override.
import { Deck } from "./deck.js";
import { BASE, chip, element, keyButton, photo, t } from "./elements.js";

const A_SHEET = 24;
const words = (code) => t(code.replaceAll("_", " "));
let reason = "";  // the last one, which is often that of the next, too

const sheet = (deck) => deck.order.slice(deck.at - deck.at % A_SHEET).slice(0, A_SHEET);

class Rejects extends Deck {
  async load(wanted = null) {
    this.narrow();
    await super.load(wanted);
  }

  // Only the reasons that the stage has.
  narrow() {
    const { stage, reason: reasons } = this.form.elements;
    if (!stage || !reasons) return;
    for (const option of reasons.options) option.hidden = option.disabled = Boolean(stage.value && option.value) && !option.dataset.stages.split("|").includes(stage.value);
    if (reasons.selectedOptions[0]?.disabled) reasons.value = "";
  }

  async undo() {
    const card = await super.undo();
    this.cards.delete("");
    if (card?.key === "") this.showError(new Error(t("Undone: %(name)s. This version contains it; the next build leaves it out again.", { name: card.undone_name })));
  }
}

function draw(card, deck) {
  return [
    element("div", { class: "rejects" }, element("div", { class: "one" }, ...marked(card, deck)), element("div", { class: "sheet" }, ...groups(deck))),
  ];
}

function marked(card, deck) {
  const figure = card.shown && element("figure", { on: { click: () => deck.large(card.shown, card.name) } },
    photo(deck.imagePath(1280, card.shown), card.name, {}, "cannot be shown"));
  const title = card.text || (card.shown ? "" : card.name);
  return [
    figure || (card.kind === "image" && element("p", { class: "quiet nowhere" }, "not available")),
    title && element("h1", { lang: card.language || null }, element("bdi", {}, title)),
    acts(card, deck),
    card.confusable && element("p", { class: "confusable" }, photo(deck.imagePath(320, card.confusable), "", {}, "not available"), element("span", { class: "quiet" }, "fits this one, too")),
    title !== card.name && element("p", { class: "quiet" }, element("bdi", {}, card.name)),
    card.detail && card.detail !== title && element("p", { class: "detail" }, element("bdi", {}, card.detail)),
    ...[card.own, ...card.other_overrides].filter(Boolean).map((override) => overrideNote(override, override === card.own)),
    !card.overridable && element("p", { class: "quiet" }, t("It cannot be rescued: %(why)s.", { why: t(card.why) })),
    card.link && element("p", {}, element("a", { href: `${BASE}/duplicates#${encodeURIComponent(card.link)}` }, "the two, side by side")),
  ].filter(Boolean);
}

function acts(card, deck) {
  return element("p", { class: "row" },
    card.overridable && !isOverridden(card) && keyButton("r", card.own ? "Rescue again" : "Rescue", "main", deck), card.own && keyButton("n", "Change the reason", "", deck),
    element("span", { class: "chips" }, chip(words(card.reason), "warm"), chip(words(card.stage)), card.bucket !== "rejected" && chip(card.bucket)));
}

const isOverridden = (card) => card.own && !card.own.stale;

function overrideNote(override, isOwn) {
  return element("div", { class: "note" },
    element("p", {}, isOwn ? "You want it: " : element("span", {}, element("bdi", {}, override.reviewer || "nobody named"), " wants it: "), element("bdi", {}, override.note)),
    override.caption && element("p", {}, "as ", element("bdi", {}, override.caption)),
    override.stale && element("p", { class: "bad" }, "This build could not follow: ", override.stale));
}

function groups(deck) {
  const sections = [];
  for (const key of sheet(deck)) {
    const card = deck.cards.get(key);
    if (!card) continue;
    if (sections.at(-1)?.[0].group !== card.group) sections.push([]);
    sections.at(-1).push(card);
  }
  return sections.map((cards) => element("section", { class: `of${Math.min(cards.length, 5)}` }, heading(cards[0], deck),
    element("ul", { class: cards.some((card) => card.shown) ? "tiles" : "tiles plain" }, ...cards.map((card) => tile(card, deck)))));
}

function heading(card, deck) {
  const group = deck.response.groups[card.group];
  const more = group.size - group.listed;
  return element("h2", {}, words(card.reason), element("span", { class: "quiet" },
    ` ${words(card.stage)} · ${group.size.toLocaleString("en")}${more ? t(", %(number)s of them here: choose the reason, or search", { number: group.listed.toLocaleString("en") }) : ""}`));
}

function tile(card, deck) {
  const overrides = [card.own, ...card.other_overrides].filter(Boolean);
  const wanted = overrides.length > 0;
  const followed = !overrides.every((override) => override.stale);
  const label = card.text || card.name;
  return element("li", {}, element("button", {
    type: "button", class: ["reject", card === deck.card && "marked", wanted && "wanted"].filter(Boolean).join(" "), title: card.name,
    "aria-current": card === deck.card ? "true" : null, on: { click: () => deck.go(deck.order.indexOf(card.key)) },
  },
    card.shown && photo(deck.imagePath(320, card.shown), "", { loading: "lazy" }, "cannot be shown"),
    element("bdi", { lang: card.language || null }, card.shown && !card.text ? label.split("/").at(-1) : label),
    card.detail && card.detail !== label && element("span", { class: "quiet" }, element("bdi", {}, card.detail)),
    wanted && (followed ? chip("rescued", "good") : chip("not followed", "warm"))));
}

function rescue(card, deck) {
  if (!card.overridable) return deck.showError(new Error(t("It cannot be rescued: %(why)s.", { why: t(card.why) })));
  if (isOverridden(card)) return deck.showError(new Error("You have rescued it. n changes the reason, u takes your last rescue back."));
  if (card.kind !== "caption") return askReason(card, deck, "", true);
  return deck.write("What shall the query say?", "The caption in its own words; Enter goes on to the reason.", card.own?.caption || card.text, false, (text) => askReason(card, deck, text, true));
}

function askReason(card, deck, caption, goesOn) {
  deck.write("Why does it belong in?", "Kept with your rescue; the next build follows.", card.own?.note || reason, true, (note) => {
    if (note.trim()) reason = note;
    const seen = card.shown ? card.shown.id : "";
    deck.submit({ key: card.key, decision: "rescue", note, caption, seen }, card.key);
    if (goesOn && note.trim() && deck.at < deck.order.length - 1) deck.go(deck.at + 1);
  });
}

const move = (step) => (_card, deck) => deck.go(deck.at + step);

// The ledger may name one thing in several rows, and an override is about all of them.
const ofSameName = (card, key, deck) => deck.cards.get(key)?.name === card.name;

new Rejects("rejects", draw, [
  [["ArrowRight"], "the next one", move(1)], [["ArrowLeft"], "the one before", move(-1)],
  [["r"], "rescue it: asks why (of a caption first for the words), then go on", rescue],
  [["n"], "change the reason", (card, deck) => card.own ? askReason(card, deck, card.own.caption, false) : deck.showError(new Error("Rescue it first: r."))],
  [["o"], "the image, large", (card, deck) => card.shown && deck.large(card.shown, card.name)],
], { doneLabel: "rescued", around: sheet, concerns: ofSameName });
