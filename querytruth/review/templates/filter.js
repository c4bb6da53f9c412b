"use strict";
/* Shows the items that have every word that is typed; without this script the field stays hidden, and all is shown. */
const field = document.querySelector("[data-filter]");
const items = [...document.querySelectorAll("[data-item]")];
const describe = (item) => [...item.querySelectorAll("[aria-label]")].map((one) => one.ariaLabel).join(" ");
const texts = items.map((item) => (item.textContent + " " + describe(item)).toLowerCase());
const folded = [...document.querySelectorAll("details.more")].filter((one) => one.querySelector("[data-item]"));
const openAtFirst = folded.map((one) => one.open);

field.addEventListener("input", () => {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = texts.map((text) => words.every((word) => text.includes(word)));
  items.forEach((item, at) => { item.hidden = !fits[at]; });
  folded.forEach((one, at) => { one.open = words.length > 0 || openAtFirst[at]; });
  document.getElementById("filtered").textContent = words.length ? fits.filter(Boolean).length + " / " + items.length : "";
});
field.closest(".filter").hidden = false;
