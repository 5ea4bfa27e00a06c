// Ctrl-K or Cmd-K: one search box over everything. Without this file, the link leads to the page that does the same.
const palette = document.querySelector("[data-palette-dialog]");
const box = palette.querySelector("input");
const results = palette.querySelector("#palette-results");
const PAUSE_MS = 120;
let chosen = -1;
let asked = 0;
let pause;

function links() {
  return [...results.querySelectorAll("a")];
}

function choose(place) {
  const all = links();
  chosen = all.length ? (place + all.length) % all.length : -1;
  all.forEach((link, at) => link.classList.toggle("chosen", at === chosen));
  if (chosen >= 0) {
    all[chosen].id = "palette-chosen";
    all.filter((_, at) => at !== chosen).forEach((link) => link.removeAttribute("id"));
    box.setAttribute("aria-activedescendant", "palette-chosen");
    all[chosen].scrollIntoView({ block: "nearest" });
  } else box.removeAttribute("aria-activedescendant");
}

async function look() {
  const mine = ++asked;
  const text = box.value.trim();
  if (!text) { results.replaceChildren(); choose(-1); return; }
  const answer = await ask(`/search?q=${encodeURIComponent(text)}`);
  // Answers may overtake each other: the newest question counts.
  if (mine !== asked || !answer?.ok) return;
  htmx.swap(results, answer.said, { swapStyle: "innerHTML" });
  box.setAttribute("aria-expanded", String(links().length > 0));
  choose(0);
}

function open() {
  if (palette.open) return;
  palette.showModal();
  box.select();
}

document.addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey) {
    event.preventDefault();
    open();
  }
});
document.addEventListener("click", (event) => {
  if (event.target.closest("[data-palette]") && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    open();
  } else if (event.target === palette) palette.close();
});
box.addEventListener("input", () => {
  clearTimeout(pause);
  pause = setTimeout(look, PAUSE_MS);
});
palette.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    choose(chosen + (event.key === "ArrowDown" ? 1 : -1));
  } else if (event.key === "Enter" && chosen >= 0) {
    event.preventDefault();
    links()[chosen].click();
  }
});
// A link to a place on this page leaves the palette open otherwise.
results.addEventListener("click", (event) => { if (event.target.closest("a")) palette.close(); });
if (/Mac|iPhone|iPad/.test(navigator.platform)) document.querySelectorAll(".seek kbd").forEach((key) => { key.textContent = "⌘ K"; });
