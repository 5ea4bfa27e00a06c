// A list to decide about with the keyboard: j and k move, a letter presses the button that shows it.
"use strict";

(() => {
  const items = () => [...document.querySelectorAll("[data-queue] > li:not(.more)")];
  const waiting = () => document.querySelectorAll("[data-queue] > .waiting").length;
  const current = () => document.querySelector("[data-queue] > li[aria-current]");

  function choose(item) {
    if (!item) return;
    current()?.removeAttribute("aria-current");
    item.setAttribute("aria-current", "true");
    item.focus({ preventScroll: true });
    item.scrollIntoView({ block: "nearest" });
  }

  function move(step) {
    const all = items();
    const place = all.indexOf(current());
    if (place < 0) choose(all[0]);
    else choose(all[Math.min(all.length - 1, Math.max(0, place + step))]);
  }

  function press(key) {
    const item = current();
    const button = item?.querySelector(`[data-key="${CSS.escape(key)}"]`);
    if (!button) return false;
    button.click();
    const text = button.matches("summary") && button.parentElement.open && item.querySelector("textarea");
    if (text) { text.focus(); text.select(); }
    return true;
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if (typing) {
      if (event.key === "Escape") {
        const details = typing.closest("details");
        if (details) { details.open = false; choose(details.closest("[data-queue] > li")); }
      }
      return;
    }
    if (event.key === "j" || event.key === "k") {
      event.preventDefault();
      move(event.key === "j" ? 1 : -1);
    } else if (event.key === "Enter" && event.target === current()) {
      current().querySelector(".statement a, .one a")?.click();
    } else if (event.key.length === 1 && press(event.key)) {
      event.preventDefault();
    }
  });
  document.addEventListener("focusin", (event) => {
    const item = event.target.closest("[data-queue] > li:not(.more)");
    if (item && item !== current()) {
      current()?.removeAttribute("aria-current");
      item.setAttribute("aria-current", "true");
    }
  });
  // What was decided stays where it was. The next one that waits is chosen, unless something was taken back.
  document.addEventListener("htmx:beforeSwap", (event) => {
    const item = event.detail.target;
    if (!item.matches?.("[data-queue] > li:not(.more)")) return;
    const place = items().indexOf(item);
    const before = waiting();
    document.addEventListener("htmx:afterSettle", () => {
      const all = items();
      const now = all[place];
      if (now?.matches(".waiting")) choose(now);
      else choose(all.slice(place).find((each) => each.matches(".waiting")) || now);
      const badge = document.querySelector(".badge");
      const shown = Number(badge?.textContent);
      if (shown) badge.textContent = shown + waiting() - before || "";
    }, { once: true });
  });
  document.addEventListener("DOMContentLoaded", () => {
    const first = items().find((each) => each.matches(".waiting"));
    if (first && matchMedia("(hover: hover)").matches) first.setAttribute("aria-current", "true");
  });
})();
