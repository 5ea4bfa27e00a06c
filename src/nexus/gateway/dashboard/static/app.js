// What every page needs besides htmx: the theme, forms that submit themselves, polling, and whether the home answers.
"use strict";

const root = document.documentElement;

function toggleTheme() {
  const dark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  document.cookie = `theme=${root.dataset.theme};path=/;max-age=31536000;samesite=strict`;
}

// New messages are polled for, more slowly while nobody answers.
const POLL_MS = 4000;
const SLOWEST_MS = 15000;

function slower(pause) {
  return Math.min(SLOWEST_MS, Math.max(1000, 2 * pause));
}

// The answer of the home, or null if it doesn't answer or doesn't know this browser.
async function ask(address) {
  try {
    const answer = await fetch(address, { headers: { "HX-Request": "true" } });
    const said = await answer.text();
    if (answer.status === 401) tell("out");
    else if (answer.status >= 500) tell("away");
    else tell("here");
    return answer.status === 401 || answer.status >= 500 ? null : { said, ok: answer.ok };
  } catch {
    tell("away");
    return null;
  }
}

// The line at the top that says whether the home answers; it is empty while all is well.
function tell(state) {
  const line = document.querySelector("[data-reach]");
  const before = line.dataset.reach;
  if (state === before || (state === "here" && !before)) return;
  line.dataset.reach = state;
  line.textContent = line.dataset[state];
  if (state === "here") {
    document.dispatchEvent(new Event("nexus:here"));
    setTimeout(() => { if (line.dataset.reach === "here") { line.dataset.reach = line.textContent = ""; } }, POLL_MS);
  }
}

// Fetch what is new on this page; whether the home answered.
async function look() {
  const later = document.querySelector("[data-later]");
  const answer = await ask(later.dataset.later);
  // Something may have been sent meanwhile, so that there is another place to go on from.
  if (answer?.ok && later.isConnected) htmx.swap(later, answer.said, { swapStyle: "outerHTML" });
  return Boolean(answer?.ok);
}

async function poll(pause = 0) {
  let answered = true;
  if (document.querySelector("[data-later]") && !document.hidden) {
    answered = await look();
  } else if (document.querySelector("[data-reach]").dataset.reach === "away") {
    answered = Boolean(await ask("/favicon.ico"));
  }
  const next = answered ? 0 : slower(pause);
  setTimeout(poll, next || POLL_MS, next);
}

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-theme-toggle]")) toggleTheme();
});
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target.closest("input, textarea, select")) return;
  const search = document.querySelector("[data-search]") || document.querySelector("#text");
  if (search) { event.preventDefault(); search.focus(); }
});
document.addEventListener("htmx:sendError", () => tell("away"));
// A refusal says why: it is shown like any other answer.
document.addEventListener("htmx:beforeSwap", (event) => {
  if (event.detail.xhr.status >= 400 && event.detail.xhr.responseText) event.detail.shouldSwap = true;
});
document.addEventListener("DOMContentLoaded", () => {
  setTimeout(poll, POLL_MS);
  document.querySelectorAll("nav [aria-current]").forEach((link) => link.scrollIntoView({ block: "nearest", inline: "center" }));
  document.querySelectorAll("[data-newest]").forEach((plot) => { plot.scrollLeft = plot.scrollWidth; });
});
