// What pages need beside htmx: the theme, forms that send themselves, answers as they are written, and
// whether the home answers at all.
"use strict";

const root = document.documentElement;

function toggleTheme() {
  const dark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  document.cookie = `theme=${root.dataset.theme};path=/;max-age=31536000;samesite=strict`;
}

function toEnd() {
  const messages = document.querySelector("[data-messages]");
  if (messages) messages.scrollTop = messages.scrollHeight;
}

function nearEnd(element) {
  return element.scrollHeight - element.scrollTop - element.clientHeight < 120;
}

// Browsers open six connections to a host at most, for all tabs together. So a page streams one run, the
// first that has not ended (the others of a session wait for it), and only while somebody looks at it.
const stream = { source: null, article: null, pause: 0 };

// A poll may have told of a run that was just asked for here: what stands behind the question is kept.
function first() {
  const found = [...document.querySelectorAll("[data-stream]")];
  const last = new Map(found.map((article) => [article.dataset.stream, article]));
  for (const article of found) if (last.get(article.dataset.stream) !== article) article.remove();
  return document.querySelector("[data-stream]");
}

function leave() {
  if (stream.source) stream.source.close();
  stream.source = stream.article = null;
}

function follow() {
  const article = first();
  if (document.hidden || (stream.article && stream.article !== article)) leave();
  if (document.hidden || !article || stream.article) return;
  stream.article = article;
  stream.source = listen(article);
}

// The pieces come as plain text; the finished answer is then fetched as the page that the server makes of it.
function listen(article) {
  const live = article.querySelector(".live");
  const working = article.querySelector(".working");
  const shown = {
    begin: () => { live.textContent = ""; },
    restart: () => { live.textContent = ""; working.textContent = "retrying"; },
    thinking: () => { working.textContent = "thinking"; },
    text: (piece) => { live.textContent += piece.text || ""; working.textContent = "writing"; },
    tool_call: (piece) => { working.textContent = `using ${piece.tool || "a tool"}`; },
  };
  working.textContent = "thinking";
  const source = new EventSource(article.dataset.stream);
  source.addEventListener("open", () => { live.textContent = ""; stream.pause = 0; });
  source.addEventListener("delta", (event) => {
    const piece = JSON.parse(event.data);
    const messages = article.closest("[data-messages]");
    const stay = messages && !nearEnd(messages);
    if (shown[piece.kind]) shown[piece.kind](piece);
    if (!stay) toEnd();
  });
  for (const end of ["result", "failed"]) source.addEventListener(end, () => finish(article));
  // A browser gives a stream up where it was answered with an error, and begins in the middle otherwise.
  source.addEventListener("error", () => {
    leave();
    stream.pause = slower(stream.pause);
    setTimeout(follow, stream.pause);
  });
  return source;
}

async function finish(article) {
  if (stream.article === article) leave();
  const answer = await ask(article.dataset.answer);
  if (!answer) return setTimeout(finish, POLL_MS, article);
  if (article.isConnected) htmx.swap(article, answer.said, { swapStyle: "outerHTML" });
  toEnd();
  follow();
}

// What is new is asked for again and again, ever more slowly while nobody answers.
const POLL_MS = 4000;
const SLOWEST_MS = 15000;

function slower(pause) {
  return Math.min(SLOWEST_MS, Math.max(1000, 2 * pause));
}

// What is answered, or null where the home does not answer or does not know this browser.
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
    follow();
    setTimeout(() => { if (line.dataset.reach === "here") { line.dataset.reach = line.textContent = ""; } }, POLL_MS);
  }
}

async function poll(pause = 0) {
  const later = document.querySelector("[data-later]");
  let answered = true;
  if (later && !document.hidden) {
    const answer = await ask(later.dataset.later);
    answered = Boolean(answer && answer.ok);
    // Something may have been said meanwhile, and the place to go on from be another one.
    if (answered && later.isConnected) htmx.swap(later, answer.said, { swapStyle: "outerHTML" });
  } else if (document.querySelector("[data-reach]").dataset.reach === "away") {
    answered = Boolean(await ask("/favicon.ico"));
  }
  const next = answered ? 0 : slower(pause);
  setTimeout(poll, next || POLL_MS, next);
}

function say(form) {
  const text = form.elements.text;
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      if (text.value.trim()) form.requestSubmit();
    }
  });
  text.addEventListener("input", () => {
    text.rows = Math.min(10, text.value.split("\n").length);
  });
  form.addEventListener("htmx:afterRequest", (event) => {
    if (event.target !== form || !event.detail.successful) return;
    text.value = "";
    text.rows = 1;
    document.querySelector("[data-empty]")?.remove();
    toEnd();
    text.focus();
  });
}

document.addEventListener("click", (event) => {
  const discard = event.target.closest("[data-discard]");
  if (discard && discard.closest("[data-messages]")) { event.preventDefault(); discard.closest("article").remove(); }
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
document.addEventListener("visibilitychange", follow);
document.addEventListener("htmx:sendError", () => tell("away"));
document.addEventListener("htmx:afterRequest", (event) => {
  const button = event.detail.elt.closest("[data-stop]");
  // The run that is streamed tells its end itself; one that waits does not.
  const article = button && button.closest("[data-stream]");
  if (article && article !== stream.article) finish(article);
});
// What was refused says why: it is shown like any other answer.
document.addEventListener("htmx:beforeSwap", (event) => {
  if (event.detail.xhr.status >= 400 && event.detail.xhr.responseText) event.detail.shouldSwap = true;
});
document.addEventListener("DOMContentLoaded", () => {
  htmx.onLoad(follow);
  setTimeout(poll, POLL_MS);
  document.querySelectorAll("[data-say]").forEach(say);
  document.querySelectorAll("nav [aria-current]").forEach((link) => link.scrollIntoView({ block: "nearest", inline: "center" }));
  document.querySelectorAll("[data-newest]").forEach((plot) => { plot.scrollLeft = plot.scrollWidth; });
  toEnd();
});
