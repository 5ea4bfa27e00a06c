// What pages need beside htmx: the theme, forms that send themselves, and answers as they are written.
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

// The pieces come as plain text; the finished answer is then fetched as the page that the server makes of it.
function follow(article) {
  const live = article.querySelector(".live");
  const working = article.querySelector(".working");
  const messages = article.closest("[data-messages]");
  const shown = {
    begin: () => { live.textContent = ""; },
    restart: () => { live.textContent = ""; working.textContent = "asking again"; },
    thinking: () => { working.textContent = "thinking"; },
    text: (piece) => { live.textContent += piece.text || ""; working.textContent = "writing"; },
    tool_call: (piece) => { working.textContent = `using ${piece.tool || "a tool"}`; },
  };
  const source = new EventSource(article.dataset.stream);
  source.addEventListener("delta", (event) => {
    const piece = JSON.parse(event.data);
    const stay = messages && !nearEnd(messages);
    if (shown[piece.kind]) shown[piece.kind](piece);
    if (!stay) toEnd();
  });
  const finish = () => {
    source.close();
    htmx.ajax("GET", article.dataset.answer, { target: article, swap: "outerHTML" }).then(toEnd);
  };
  source.addEventListener("result", finish);
  source.addEventListener("failed", finish);
}

function prepare(element) {
  const found = element.matches && element.matches("[data-stream]") ? [element] : [];
  for (const article of [...found, ...element.querySelectorAll("[data-stream]")]) {
    if (article.dataset.followed) continue;
    article.dataset.followed = "yes";
    follow(article);
  }
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
// What was refused says why: it is shown like any other answer.
document.addEventListener("htmx:beforeSwap", (event) => {
  if (event.detail.xhr.status >= 400 && event.detail.xhr.responseText) event.detail.shouldSwap = true;
});
document.addEventListener("DOMContentLoaded", () => {
  htmx.onLoad(prepare);
  document.querySelectorAll("[data-say]").forEach(say);
  document.querySelectorAll("nav [aria-current]").forEach((link) => link.scrollIntoView({ block: "nearest", inline: "center" }));
  toEnd();
});
