// Adds images of the gallery to the query of the card: found by a text, by a similar image, or by a file.
import { ask, chip, element, photo, t } from "./elements.js";
import { settings } from "./card_queue.js";
import { decidedTexts, gradeOf, grading } from "./parts.js";

export class ImageFinder {
  constructor(decide) {
    Object.assign(this, { decide, images: [], card: null });
    this.search = element("input", { type: "search", maxlength: 200, placeholder: "file name, label, caption or query", "aria-label": "search the gallery",
      on: { input: () => this.soon(), keydown: (event) => this.entered(event) } });
    this.file = element("input", { type: "file", accept: "image/*", on: { change: () => { if (this.file.files[0]) this.findFile(this.file.files[0]); this.file.value = ""; } } });
    this.message = element("p", { class: "quiet", role: "status" });
    this.results = element("ul", { class: "grid" });
    this.dialog = element("dialog", { id: "image-finder", on: { keydown: (event) => this.pressed(event) } },
      element("h2", {}, "Add an image"), this.query = element("p", { class: "question" }),
      element("p", { class: "row" }, this.search, element("label", { class: "button" }, "By file", this.file)),
      this.message, this.results,
      element("p", { class: "row" }, element("button", { type: "button", on: { click: () => this.dialog.close() } }, "Close ", element("kbd", {}, "Esc"))));
    document.body.append(this.dialog);
    for (const name of ["dragover", "drop"]) document.addEventListener(name, (event) => this.dropped(name, event));
  }

  open(card, queue) {
    Object.assign(this, { card, queue });
    this.query.replaceChildren(element("bdi", {}, decidedTexts(card).text));
    this.search.value = "";
    if (!this.dialog.open) this.dialog.showModal();
    this.search.focus();
    this.draw([], "Write a word, choose a file, or drop one onto the page. A grade adds the image.");
  }

  findSimilar(card, queue, one) {
    this.open(card, queue);
    return this.find(`similar?${this.params({ image_id: one.image_id })}`, t("Like %(name)s:", { name: one.name }));
  }

  findFile(file) { return this.find(`file?${this.params({})}`, t("Like %(name)s:", { name: file.name }), file.slice(0, file.size, "application/octet-stream")); }

  params(more) { return new URLSearchParams({ query: this.card.key, ...more }); }

  soon() { clearTimeout(this.typing); this.typing = setTimeout(() => this.findText(), 250); }

  findText() {
    const search = this.search.value.trim();
    if (search) return this.find(`text?${this.params({ search })}`, "");
    return this.draw([], "");
  }

  async find(path, title, file) {
    this.latest = path;
    this.message.textContent = t("Searching…");
    try {
      const { images, remark } = await ask(`/api/finder/${path}`, file);
      if (this.latest === path) this.draw(images, [title, remark].filter(Boolean).join(" ") || (images.length ? "" : "No image of the gallery has that in its name, labels, captions or queries."));
    } catch (error) { if (this.latest === path) this.draw([], error.message); }
  }

  draw(images, message) {
    this.images = images;
    this.message.textContent = t(message);
    this.results.replaceChildren(...images.map((one) => this.tile(one)));
  }

  tile(one) {
    return element("li", { class: `tile ${one.own ? "own" : ""}` },
      element("button", { type: "button", class: "frame", title: t("%(name)s: grade it with a key, or search for similar ones (s)", { name: one.name }), "data-image": one.image_id, on: { click: () => this.findSimilar(this.card, this.queue, one) } },
        photo(this.queue.imagePath(320, one.image_id), one.name, { loading: "lazy" })),
      grading(one, (grade) => this.grade(one, grade), gradeOf(this.card, one)),
      element("div", { class: "why" }, one.relevance !== null && chip(t("judged %(grade)s", { grade: one.relevance })), element("bdi", {}, one.why)));
  }

  async grade(one, grade) {
    await this.decide(this.card, one, grade, this.queue);
    const now = this.queue.cards.get(this.card.key)?.images.find((shown) => shown.image_id === one.image_id);
    if (!now) return;
    Object.assign(this, { card: this.queue.cards.get(this.card.key) });
    const place = this.images.indexOf(one);
    const tile = this.tile(Object.assign(one, now));
    this.results.children[place]?.replaceWith(tile);
    tile.querySelector(".frame").focus();
  }

  async entered(event) {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    clearTimeout(this.typing);
    await this.findText();
    this.results.querySelector(".frame")?.focus();
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
    else if (event.key === "s") this.findSimilar(this.card, this.queue, one);
    else return;
    event.preventDefault();
  }

  dropped(name, event) {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    const card = this.queue?.card || this.card;
    if (name !== "drop" || !event.dataTransfer.files[0] || !card) return;
    this.open(card, this.queue);
    this.findFile(event.dataTransfer.files[0]);
  }
}
