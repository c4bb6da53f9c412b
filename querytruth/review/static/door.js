// The page of a folder: a search that is asked and judged, work that is started, a file that is recognised.
import { ask, element, photo, t } from "./elements.js";

const byId = (id) => document.getElementById(id);
const state = { text: "", answers: [] };

function showError(error) {
  byId("notice").textContent = error.message;
  byId("notice").hidden = false;
}

async function attempt(act) {
  byId("notice").hidden = true;
  try { return await act(); } catch (error) { showError(error); return null; }
}

const photoPath = (side, name) => `/door/photo/${side}/${name.split("/").map(encodeURIComponent).join("/")}`;

function enlarge(name) {
  byId("large-frame").replaceChildren(element("img", { src: photoPath(1280, name), alt: "" }));
  byId("large-name").textContent = name;
  byId("large").showModal();
}

function tile(hit) {
  const made = element("li", { "data-name": hit.name, "data-photo": hit.is_photo ? "yes" : null });
  const grade = (value, label, key, kind) => element("button", { type: "button", class: kind, "data-grade": String(value), on: { click: () => judge(made, value) } }, label, " ", element("kbd", {}, key));
  const shown = hit.is_photo
    ? element("button", { type: "button", class: "photo", "data-tile": true, "aria-label": `${hit.rank}: ${hit.name}`, on: { click: () => enlarge(hit.name) } }, photo(photoPath(320, hit.name), ""))
    : element("button", { type: "button", class: "photo", "data-tile": true, disabled: true }, t("no photo of the folder, or several of this name"));
  made.append(shown, element("p", { title: hit.name }, element("b", {}, `${hit.rank} `), element("bdi", {}, hit.name)));
  if (hit.stated) made.append(element("p", { class: "quiet" }, element("bdi", {}, hit.stated)));
  if (hit.is_photo) made.append(element("div", { class: "row" }, grade(1, "Fits", "y", "yes"), grade(0, "No", "n", "no")));
  return made;
}

// One photo may stand in both columns: all its tiles show what was judged.
function mark() {
  for (const answer of state.answers) {
    for (const hit of answer.hits) {
      for (const made of document.querySelectorAll(`#answers li[data-name="${CSS.escape(hit.name)}"]`)) {
        made.className = hit.grade === null || hit.grade === undefined ? "" : hit.grade > 0 ? "right" : "wrong";
        for (const button of made.querySelectorAll("[data-grade]")) button.setAttribute("aria-pressed", String(button.dataset.grade === String(hit.grade)));
      }
    }
  }
}

// The next tile has the focus at once; a judgment that cannot be saved is taken back on the page.
async function judge(made, grade) {
  const name = made.dataset.name;
  const before = state.answers.flatMap((one) => one.hits).find((hit) => hit.name === name)?.grade;
  const show = (value) => {
    for (const one of state.answers) for (const hit of one.hits) if (hit.name === name) hit.grade = value;
    mark();
  };
  show(grade === null ? null : String(grade));
  const tiles = [...document.querySelectorAll("#answers li[data-photo]")];
  const open = tiles.filter((one) => !one.className);
  if (grade !== null) (open.find((one) => tiles.indexOf(one) > tiles.indexOf(made)) || open[0] || made).querySelector("[data-tile]").focus();
  state.saving = (state.saving || Promise.resolve()).then(async () => {
    if (!await attempt(() => ask("/api/door/judge", { text: state.text, image: name, grade }))) show(before);
  });
  await state.saving;
  clearTimeout(state.timer);
  state.timer = setTimeout(showFigure, 200);
}

const bar = ({ low, high, value }) => {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  for (const [name, given] of Object.entries({ class: "interval", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" })) svg.setAttribute(name, given);
  for (const [kind, x, y, width, height] of [["", 0, 3.5, 100, 1], ["reach", 100 * low, 2, Math.max(100 * (high - low), 0.5), 4], ["mean", Math.max(100 * value - 0.5, 0), 0, 1, 8]]) {
    const part = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    for (const [name, given] of Object.entries({ class: kind, x, y, width, height })) part.setAttribute(name, String(given));
    svg.append(part);
  }
  return svg;
};

async function showFigure() {
  const shown = [];
  let queries = 0;
  for (const { system, label } of state.answers) {
    const found = await attempt(() => ask(`/api/door/figure?${new URLSearchParams({ system })}`));
    if (!found?.judgments) continue;
    const [first, ...others] = found.figures.map((one) => ({ ...one, text: `${one.metric} ${one.value.toFixed(2)}` }));
    const about = { low: first.low.toFixed(2), high: first.high.toFixed(2), queries: found.queries, judgments: found.judgments };
    queries = found.queries;
    shown.push(element("p", {}, element("bdi", {}, label), " ", element("b", {}, first.text), ` ${others.map((one) => one.text).join(" · ")}`), bar(first),
      element("p", {}, t("95% interval for queries that you have not tried: %(low)s to %(high)s (queries: %(queries)s, judgments: %(judgments)s).", about)));
    if (first.at_most - first.value > 1e-9) shown.push(element("p", { class: "quiet" }, t("Unjudged results count as wrong; if all of them fit, the figure is %(most)s.", { most: first.at_most.toFixed(2) })));
  }
  if (shown.length && queries < 10) shown.push(element("p", { class: "quiet" }, t("This figure describes these queries. Ten or more queries say something about other queries; a difference of 5 points needs some hundreds.")));
  if (shown.length) shown.push(element("p", { class: "quiet" }, t("Only the first ten results were judged: relevant images that the search misses are unknown.")));
  byId("figure").replaceChildren(...shown);
  byId("after").hidden = !shown.length;
}

function showAnswers({ text, answers }) {
  Object.assign(state, { text, answers });
  byId("results").hidden = false;
  byId("results-title").textContent = text;
  byId("answers").replaceChildren(...answers.map((answer) => element("div", {},
    element("h3", {}, element("bdi", {}, answer.label)),
    answer.described && element("details", {}, element("summary", {}, "How it is asked"), element("pre", { class: "described" }, element("bdi", {}, answer.described))),
    answer.problem && element("p", { class: "note" }, element("bdi", {}, answer.problem)),
    element("ol", {}, ...answer.hits.map(tile)))));
  mark();
  (document.querySelector("#answers li[data-photo] [data-tile]") || byId("results-title")).focus();
  for (const name of ["one", "other"]) for (const { system, label } of answers) {
    const select = byId("ask").elements[name];
    if (![...select.options].some((one) => one.value === system)) select.append(element("option", { value: system }, label));
  }
  byId("after").querySelector(".line code").textContent = byId("after").querySelector("[data-copy]").dataset.copy = answers[0].line;
  byId("ask").querySelector(".choices").hidden = false;
  if (byId("ask").elements.url.value) Object.assign(byId("ask").elements.url, { value: "" }) && (byId("ask").elements.one.value = answers[0].system);
}

byId("ask")?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const { url, text, one, other } = event.target.elements;
  const systems = [...new Set([url.value.trim() ? "" : one.value, other.value].filter(Boolean))];
  if (!url.value.trim() && !systems.length) { url.focus(); return showError(new Error(t("Give the address of the search."))); }
  const button = event.target.querySelector("button");
  button.disabled = byId("results").hidden = true;
  const found = await attempt(() => ask("/api/door/search", { text: text.value.trim(), url: url.value.trim(), systems }));
  button.disabled = false;
  if (found) { showAnswers(found); await showFigure(); }
});

const STEPS = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 };
const GRADES = { y: 1, n: 0, u: null };
byId("answers")?.addEventListener("keydown", (event) => {
  const made = event.target.closest("li[data-photo]");
  if (!made || event.ctrlKey || event.metaKey || event.altKey) return;
  const tiles = [...document.querySelectorAll("#answers li[data-photo]")];
  if (event.key in STEPS) tiles[tiles.indexOf(made) + STEPS[event.key]]?.querySelector("[data-tile]").focus();
  else if (event.key in GRADES) judge(made, GRADES[event.key]);
  else return;
  event.preventDefault();
});
byId("large")?.addEventListener("click", () => byId("large").close());

async function follow() {
  const { jobs } = await ask("/api/door/jobs").catch(() => ({ jobs: [] }));
  const last = jobs.at(-1);
  if (!last) return;
  byId("jobs").replaceChildren(element("div", { class: "running" },
    element("b", {}, { running: "Running", done: "Done", failed: "Failed" }[last.state]), element("pre", {}, element("bdi", {}, last.lines.join("\n"))),
    last.state === "done" && element("a", { class: "button", href: "/door" }, "Show it")));
  if (last.state === "running") setTimeout(follow, 700);
}

for (const button of document.querySelectorAll("[data-work]")) button.addEventListener("click", async () => {
  const done = await attempt(() => ask("/api/door/start", { work: button.dataset.work, system: state.answers[0]?.system || "" }));
  if (done?.written) button.textContent = t("%(file)s: %(cases)s new cases", { file: done.written, cases: done.cases });
  else if (done) { await follow(); byId("jobs").scrollIntoView(); }
});

for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", () => attempt(async () => {
  await navigator.clipboard.writeText(button.dataset.copy);
  button.textContent = t("Copied");
}));

async function recognise(file) {
  const found = file && await attempt(() => ask(`/api/door/file?${new URLSearchParams({ name: file.name.slice(0, 200) })}`, file.slice(0, 60 << 20)));
  if (found) byId("recognised").replaceChildren(element("p", {}, element("b", {}, file.name), `: ${t(found.what)}`), ...found.lines.map((one) => element("span", { class: "line" }, element("code", {}, element("bdi", {}, one)))));
}
const drop = byId("drop")?.closest("section");
byId("drop")?.querySelector("input").addEventListener("change", (event) => recognise(event.target.files[0]));
for (const [name, act] of [["dragover", true], ["dragleave", false], ["drop", false]]) drop?.addEventListener(name, (event) => {
  event.preventDefault();
  drop.classList.toggle("dropping", act);
  if (name === "drop") recognise(event.dataTransfer.files[0]);
});
follow();
