// Dialogs that find images: to add them to the query of a card, or to bring two of them together.
import { settings } from "./deck.js";
import { ask, chip, element, photo, t } from "./elements.js";
import { decidedTexts, gradeOf, grading } from "./parts.js";

// A search, a message and results; Enter takes the first. A finder gives what is found and the tile of one.
class Finder {
  constructor(id, title, placeholder, label) {
    this.images = [];
    this.search = element("input", { type: "search", maxlength: 200, placeholder, "aria-label": label, on: { input: () => this.soon(), keydown: (event) => this.entered(event) } });
    this.title = element("div", { class: "first" });
    this.message = element("p", { class: "quiet", role: "status" });
    this.results = element("ul", { class: "results" });
    this.bar = element("p", { class: "row" }, this.search);
    this.dialog = element("dialog", { id, class: "finder", "aria-labelledby": `${id}-title` }, element("h2", { id: `${id}-title` }, title), this.title, this.bar, this.message, this.results,
      element("p", { class: "row" }, element("button", { type: "button", on: { click: () => this.dialog.close() } }, "Close ", element("kbd", {}, "Esc"))));
    document.body.append(this.dialog);
  }

  show() {
    this.search.value = "";
    if (!this.dialog.open) this.dialog.showModal();
    this.search.focus();
  }

  soon() { clearTimeout(this.typing); this.typing = setTimeout(() => this.findText(), 220); }

  draw(images, message = "") {
    this.images = images;
    this.message.textContent = t(message);
    this.results.replaceChildren(...images.map((one) => element("li", { class: one.own ? "tile own" : "tile" }, ...this.tile(one))));
  }

  async entered(event) {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    clearTimeout(this.typing);
    await this.findText(); // a quick hand means what it wrote
    if (this.images.length) this.take(this.images[0]);
  }
}

// Adds images of the gallery to the query of the card: found by a text, by a similar image, or by a file.
export class ImageFinder extends Finder {
  constructor(decide) {
    super("image-finder", "Add an image", "file name, label, caption or query", "search the gallery");
    this.decide = decide;
    this.file = element("input", { type: "file", accept: "image/*", on: { change: () => { if (this.file.files[0]) this.findFile(this.file.files[0]); this.file.value = ""; } } });
    this.bar.append(element("label", { class: "button" }, "By file", this.file));
    this.results.classList.add("grid");
    this.dialog.addEventListener("keydown", (event) => this.pressed(event));
    for (const name of ["dragover", "drop"]) document.addEventListener(name, (event) => this.dropped(name, event));
  }

  open(card) {
    this.card = card;
    this.title.replaceChildren(element("p", { class: "question" }, element("bdi", {}, decidedTexts(card).text)));
    this.show();
    this.draw([], "Write a word, choose a file, or drop one onto the page. A grade adds the image.");
  }

  findSimilar(card, one) {
    this.open(card);
    return this.find(`similar?${this.params({ image_id: one.image_id })}`, t("Like %(name)s:", { name: one.name }));
  }

  findFile(file) { return this.find(`file?${this.params({})}`, t("Like %(name)s:", { name: file.name }), file.slice(0, file.size, "application/octet-stream")); }

  params(more) { return new URLSearchParams({ query: this.card.key, ...more }); }

  findText() {
    const search = this.search.value.trim();
    return search ? this.find(`text?${this.params({ search })}`, "") : this.draw([]);
  }

  async find(path, title, file) {
    this.latest = path;
    this.message.textContent = t("Searching…");
    try {
      const { images, remark } = await ask(`/api/finder/${path}`, file);
      if (this.latest === path) this.draw(images, [title, remark].filter(Boolean).join(" ") || (images.length ? "" : "No image of the gallery has that in its name, labels, captions or queries."));
    } catch (error) { if (this.latest === path) this.draw([], error.message); }
  }

  take() { this.results.querySelector(".frame")?.focus(); }

  tile(one) {
    return [
      element("button", { type: "button", class: "frame", title: t("%(name)s: grade it with a key, or search for similar ones (s)", { name: one.name }), "data-image": one.image_id, on: { click: () => this.findSimilar(this.card, one) } },
        photo(this.deck.imagePath(320, one.image_id), one.name, { loading: "lazy" })),
      grading(one, (grade) => this.grade(one, grade), gradeOf(this.card, one)),
      element("div", { class: "why" }, one.relevance !== null && chip(t("judged %(grade)s", { grade: one.relevance })), element("bdi", {}, one.why)),
    ];
  }

  async grade(one, grade) {
    await this.decide(this.card, one, grade, this.deck);
    const card = this.deck.cards.get(this.card.key);
    const now = card?.images.find((shown) => shown.image_id === one.image_id);
    if (!now) return;
    this.card = card;
    const tile = this.results.children[this.images.indexOf(Object.assign(one, now))];
    tile?.replaceChildren(...this.tile(one));
    tile?.querySelector(".frame").focus();
  }

  // On a result: a digit grades it, s searches for similar ones, the arrows go to the others.
  pressed(event) {
    const frames = [...this.results.querySelectorAll(".frame")];
    if (event.target === this.search) { if (event.key === "ArrowDown" && frames.length) { event.preventDefault(); frames[0].focus(); } return; }
    const place = frames.findIndex((frame) => frame.parentElement.contains(event.target));
    if (place < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const one = this.images[place];
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) frames[Math.min(Math.max(place + step, 0), frames.length - 1)].focus();
    else if (settings.grades.map(String).includes(event.key)) this.grade(one, Number(event.key));
    else if (event.key === "s") this.findSimilar(this.card, one);
    else return;
    event.preventDefault();
  }

  dropped(name, event) {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    const card = this.deck?.card || this.card;
    if (name !== "drop" || !event.dataTransfer.files[0] || !card) return;
    this.open(card);
    this.findFile(event.dataTransfer.files[0]);
  }
}

// Brings any two images together. The first one stays marked until it has a second one, or is taken back.
export class PairFinder extends Finder {
  constructor() {
    super("finder", "Two images that are the same", "name", "name of an image");
    this.first = null;
  }

  open() {
    this.show();
    this.findText();
  }

  // Without a word: the two images of the card that it was opened from, if there is one.
  async findText() {
    const search = this.search.value;
    let results = this.deck.card ? [this.deck.card.one, this.deck.card.other] : [];
    try { if (search.trim()) results = (await ask(`/api/duplicates/images?${new URLSearchParams({ search })}`)).images; } catch (error) { this.deck.showError(error); }
    if (search !== this.search.value) return;
    this.title.replaceChildren(...(this.first
      ? [photo(this.deck.imagePath(320, this.first.image_id), this.first.name), element("p", {}, "Which is the same as ", element("bdi", {}, this.first.name), "?"), element("button", { type: "button", on: { click: () => { this.first = null; this.findText(); } } }, "Another")]
      : [element("p", { class: "quiet" }, "Choose the first one. It stays marked when this is closed, so that the second can be of another pair.")]));
    const found = results.filter((one) => one.image_id !== this.first?.image_id);
    this.draw(found, found.length ? "" : search.trim() ? "No image has that name." : "Write a part of its name.");
  }

  tile(one) {
    return [element("button", { type: "button", on: { click: () => this.take(one) } }, photo(this.deck.imagePath(320, one.image_id), "", { loading: "lazy" }, "not available"), element("bdi", {}, one.name))];
  }

  async take(one) {
    if (!this.first) {
      this.first = one;
      this.show();
      return this.findText();
    }
    try {
      const { key } = await ask(`/api/duplicates/pair?${new URLSearchParams({ one: this.first.image_id, other: one.image_id })}`);
      this.first = null;
      this.dialog.close();
      return this.deck.insert(key);
    } catch (error) { return this.deck.showError(error); }
  }
}
