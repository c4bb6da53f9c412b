"use strict";
/* Keys, filters and zoom. Without this script everything is on the page all the same. */
const all = (what, where = document) => [...where.querySelectorAll(what)];
const zoom = document.getElementById("zoom");
const help = document.getElementById("help");
const status_ = document.getElementById("status");
const shownQueries = () => all("article.query-card").filter((one) => one.offsetParent !== null);
let zoomed = null;

function goTo(step) {
  const queries = shownQueries();
  const here = document.activeElement && document.activeElement.closest("article.query-card");
  let at = queries.indexOf(here);
  if (at < 0) {  // none has the focus: from where the reader has scrolled to
    const below = queries.findIndex((one) => one.getBoundingClientRect().bottom > 120);
    at = step > 0 ? below - 1 : below < 0 ? queries.length : below;
    if (step > 0 && below < 0) at = queries.length - 1;
  }
  const next = queries[Math.min(Math.max(at + step, 0), queries.length - 1)];
  if (next) { next.focus({ preventScroll: true }); next.scrollIntoView({ block: "start" }); }
}

function only(bin) {
  all("[data-bin]").forEach((one) => { one.hidden = bin !== "" && one.dataset.bin !== bin; });
  all("[data-bin] details.more").forEach((one) => { one.open = bin !== ""; });
  all("[data-only]").forEach((one) => one.setAttribute("aria-pressed", String(one.dataset.only === bin)));
  status_.textContent = shownQueries().length + " queries are shown";
}

function show(button) {
  const photo = button.querySelector(".photo");
  zoomed = button;
  const stage = zoom.querySelector(".stage");
  const copy = photo.cloneNode(true);
  copy.style.cssText = button.dataset.fill;
  copy.style.setProperty("--ratio", button.dataset.ratio);
  stage.replaceChildren(copy);
  stage.className = "stage " + (button.closest(".tile") || button).className;
  zoom.querySelector(".description").textContent = button.getAttribute("aria-label");
  if (!zoom.open) zoom.showModal();
}

function stepZoom(step) {
  const buttons = all(".zooms", zoomed.closest("article.query-card"));
  const next = buttons[buttons.indexOf(zoomed) + step];
  if (next) show(next);
}

document.addEventListener("click", (event) => {
  const hit = (what) => event.target.closest(what);
  if (hit(".zooms")) show(hit(".zooms"));
  else if (hit("[data-only]")) only(hit("[data-only]").dataset.only);
  else if (hit("[data-help]")) help.showModal();
  else if (hit("[data-step]")) stepZoom(Number(hit("[data-step]").dataset.step));
  else if (hit("[data-close]") || event.target === zoom || event.target === help) event.target.closest("dialog").close();
});
zoom.addEventListener("close", () => { if (zoomed) zoomed.focus(); });

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (zoom.open) {
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      event.preventDefault();
      stepZoom(event.key === "ArrowLeft" ? -1 : 1);
    }
    return;
  }
  if (help.open) { if (event.key === "?") help.close(); return; }
  const bins = all("button[data-only]");
  if (event.key === "j" || event.key === "k") goTo(event.key === "j" ? 1 : -1);
  else if (event.key === "?") help.showModal();
  else if (/^[0-9]$/.test(event.key) && bins[Number(event.key)]) only(bins[Number(event.key)].dataset.only);
  else if (event.key === "Enter" && document.activeElement.matches("article.query-card")) {
    const first = document.activeElement.querySelector(".zooms");
    if (first) { event.preventDefault(); show(first); }
  }
});
all(".filters, [data-help]").forEach((one) => { one.hidden = false; });
