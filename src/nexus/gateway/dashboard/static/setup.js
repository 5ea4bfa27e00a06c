// The test of a model on the setup page: it is sent line by line, and shown as it comes.
"use strict";

const setup = document.querySelector("[data-setup]");
const button = setup.querySelector("[data-test]");
const untested = setup.querySelector("[data-untested]");
const trial = setup.querySelector(".trial");
const state = trial.querySelector("[data-trial-status]");
const text = trial.querySelector("[data-trial-text]");
const results = trial.querySelector("[data-trial-done]");
let answered = false;

function say(words, tone) {
  state.textContent = words;
  state.className = `status ${tone}`;
}

function show(line) {
  if (line.model) { say(`Testing ${line.model}…`, "busy"); text.textContent = ""; }
  else if (line.step) { say(`Testing: ${line.step}…`, "busy"); answered = true; }
  else if (line.text) {
    // An answer stays until the next one begins.
    text.textContent = (answered ? "" : text.textContent) + line.text;
    answered = false;
  }
  else if (line.done) results.append(Object.assign(document.createElement("li"), { textContent: line.done.replaceAll("`", "") }));
  else if (line.failed) say(`${line.failed}. ${line.hint}`, "bad");
  else if (line.ready) {
    say("The model works.", "good");
    button.value = "yes";
    button.textContent = "Save and start";
    untested.hidden = true;
  }
}

async function run() {
  trial.hidden = false;
  results.replaceChildren();
  say("Testing…", "busy");
  const answer = await fetch("/setup/test", { method: "POST", body: new URLSearchParams(new FormData(setup)) });
  if (!answer.ok) throw new Error(answer.statusText);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const lines = (rest + part.value).split("\n");
    rest = lines.pop();
    lines.forEach((line) => show(JSON.parse(line)));
  }
}

setup.addEventListener("submit", async (event) => {
  if (event.submitter?.value) return;
  event.preventDefault();
  button.disabled = true;
  try { await run(); } catch { say("The connection broke off. Try again.", "bad"); }
  button.disabled = false;
});
setup.addEventListener("input", () => {
  button.value = "";
  button.textContent = "Test the model";
  untested.hidden = false;
});
