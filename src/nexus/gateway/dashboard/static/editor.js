// The script of an automation: highlighted as it is typed, with indentation. Without this file it is a plain text box.
// The text stays in the textarea, so that undo, screen readers, phones and spell checkers work as ever.

const text = document.querySelector("[data-editor]");
const code = text.parentElement.querySelector("code");
const gutter = text.closest(".editor").querySelector(".gutter");
const STEP = "    ";
const MOST = 60000;
let leaving = false;

function draw() {
  const source = text.value;
  // A last line that is empty has a height too.
  if (source.length <= MOST) code.innerHTML = `${Prism.highlight(source, Prism.languages.python, "python")}\n`;
  else code.textContent = `${source}\n`;
  const lines = source.split("\n").length;
  if (gutter.childElementCount !== lines) {
    gutter.replaceChildren(...Array.from({ length: lines }, (_, at) => Object.assign(document.createElement("i"), { textContent: at + 1 })));
  }
}

// The browser's own way of typing, so that undo knows of it.
function type(piece) {
  document.execCommand("insertText", false, piece);
}

function lineStart(at) {
  return text.value.lastIndexOf("\n", at - 1) + 1;
}

function indent(back) {
  const start = lineStart(text.selectionStart);
  const end = text.selectionEnd;
  if (!back && text.selectionStart === end) { type(STEP); return; }
  const lines = text.value.slice(start, end).split("\n");
  const moved = lines.map((line) => (back ? line.replace(/^ {1,4}/, "") : STEP + line)).join("\n");
  if (moved === lines.join("\n")) return;
  text.setSelectionRange(start, end);
  type(moved);
  if (lines.length > 1) text.setSelectionRange(start, start + moved.length);
}

function breakLine() {
  const line = text.value.slice(lineStart(text.selectionStart), text.selectionStart);
  type(`\n${line.match(/^ */)[0]}${line.trimEnd().endsWith(":") ? STEP : ""}`);
}

text.addEventListener("input", draw);
text.addEventListener("keydown", (event) => {
  const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
  if (event.key === "Tab" && plain && !leaving) { event.preventDefault(); indent(event.shiftKey); }
  else if (event.key === "Enter" && plain && !event.shiftKey && !event.isComposing) { event.preventDefault(); breakLine(); }
  if (event.key !== "Shift") leaving = event.key === "Escape";
});
text.addEventListener("blur", () => { leaving = false; });
text.form.addEventListener("keydown", (event) => {
  if (!event.ctrlKey && !event.metaKey) return;
  if (event.key === "Enter") { event.preventDefault(); text.form.querySelector("[data-test]").click(); }
  else if (event.key === "s") { event.preventDefault(); text.form.querySelector("[data-save]").click(); }
});
text.closest(".editor").classList.add("drawn");
draw();
