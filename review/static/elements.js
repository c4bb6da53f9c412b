// Elements are made of texts, never of HTML: what a caption holds is shown, and nothing of it runs.

export function element(tag, fields = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(fields)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export const picture = (side, id) => `/picture/${side}/${encodeURIComponent(id)}`;

export function chip(text, kind = "") {
  return element("span", { class: `chip ${kind}` }, String(text));
}

export async function ask(address, body) {
  const options = body === undefined ? {} : {
    method: "POST",
    headers: { "content-type": body instanceof Blob ? "application/octet-stream" : "application/json" },
    body: body instanceof Blob ? body : JSON.stringify(body),
  };
  let answer;
  try {
    answer = await fetch(address, { ...options, credentials: "same-origin" });
  } catch {
    throw new Error("Not saved: the page's server does not answer. Start querytruth review again and open its address.");
  }
  if (answer.ok) return answer.json();
  const text = await answer.text();
  let why = text;
  try { why = JSON.parse(text).error || JSON.parse(text).detail || text; } catch { /* a plain line */ }
  throw new Error(why);
}
