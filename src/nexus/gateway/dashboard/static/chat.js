// The chat: answers rendered as they are written, the composer with its commands and files, editing and stopping.
"use strict";

const messages = document.querySelector("[data-messages]");
const form = document.querySelector("[data-say]");
const text = form.elements.text;

// Scrolling

// Whoever has scrolled up stays there; otherwise the newest is in sight.
let pinned = true;

function toEnd() {
  pinned = true;
  messages.scrollTop = messages.scrollHeight;
}

messages.addEventListener("scroll", () => {
  pinned = messages.scrollHeight - messages.scrollTop - messages.clientHeight < 120;
});
new MutationObserver(() => { if (pinned) toEnd(); }).observe(messages, { childList: true, subtree: true });

// Markdown, with the rules of the server: no HTML and no pictures. Links open elsewhere.
const LONGEST = 20000;
const markdown = markdownit("commonmark", { html: false, linkify: false }).enable(["table", "strikethrough"]).disable("image");
markdown.renderer.rules.link_open = (tokens, index, options, env, renderer) => {
  if (!String(tokens[index].attrGet("href")).startsWith("#")) {
    tokens[index].attrSet("rel", "noopener noreferrer nofollow");
    tokens[index].attrSet("target", "_blank");
  }
  return renderer.renderToken(tokens, index, options);
};

// Only blocks that changed are replaced, so that a selection in the others stays.
function render(prose, written) {
  const made = document.createElement("template");
  if (written.length > LONGEST) {
    made.innerHTML = '<div class="said"></div>';
    made.content.firstChild.textContent = written;
  } else made.innerHTML = markdown.render(written);
  const now = [...prose.childNodes], next = [...made.content.childNodes];
  let same = 0;
  while (same < now.length && same < next.length && now[same].isEqualNode(next[same])) same += 1;
  now.slice(same).forEach((node) => node.remove());
  prose.append(...next.slice(same));
}

// For how long a run has been doing what it says it does; shown by the style, so that it isn't read aloud each second.
setInterval(() => {
  document.querySelectorAll(".pending .working[data-since]").forEach((working) => {
    const seconds = Math.floor((Date.now() - working.dataset.since) / 1000);
    if (seconds > 0) working.dataset.elapsed = seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  });
}, 1000);

// A run as it is written: what the server has recorded of it, then what has come since.
class Live {
  constructor(article) {
    this.article = article;
    this.live = article.querySelector(".live");
    this.working = article.querySelector(".working");
    this.begin();
  }

  begin() {
    this.live.replaceChildren();
    this.answers = [];
    this.fetching = this.again = false;
  }

  get recorded() {
    return Number(this.article.querySelector(".recorded").dataset.answers);
  }

  // The answer that is being written; null if the server has shown it already.
  get current() {
    const last = this.answers.at(-1);
    return last && last.number >= this.recorded ? last : null;
  }

  take(piece) {
    const kinds = {
      begin: () => this.open(),
      restart: () => this.withdraw(piece.text),
      thinking: () => this.say("thinking"),
      status: () => this.say(piece.doing, Date.parse(piece.at)),
      waiting: () => this.say(`waiting: ${piece.text}`),
      text: () => this.write(piece.text || ""),
      tool_call: () => this.call(piece),
      approval: () => this.approval(),
      tool_result: () => this.refresh(),
    };
    if (kinds[piece.kind]) kinds[piece.kind]();
  }

  say(state, since) {
    if (this.working.textContent === state) return;
    this.working.textContent = state;
    this.working.dataset.since = since || Date.now();
    delete this.working.dataset.elapsed;
  }

  open() {
    this.answers.push({ number: this.answers.length, written: "", prose: null, nodes: [], drawing: false });
    this.say("thinking");
  }

  withdraw(reason) {
    const answer = this.answers.at(-1);
    if (!answer) return this.open();
    answer.nodes.forEach((node) => node.remove());
    Object.assign(answer, { written: "", prose: null, nodes: [] });
    this.say(reason || "retrying");
  }

  write(piece) {
    const answer = this.current;
    if (!answer) return;
    answer.written += piece;
    if (!answer.prose) {
      answer.prose = document.createElement("div");
      answer.prose.className = "prose";
      this.add(answer, answer.prose);
      render(answer.prose, answer.written);
      this.say("writing");
      return;
    }
    if (answer.drawing) return;
    answer.drawing = true;
    requestAnimationFrame(() => this.draw(answer));
  }

  draw(answer) {
    if (!answer.drawing) return;
    answer.drawing = false;
    if (answer.prose) render(answer.prose, answer.written);
  }

  // What waits for the next frame is drawn now.
  complete() {
    this.answers.forEach((answer) => this.draw(answer));
  }

  call(piece) {
    const tool = piece.tool || "a tool";
    this.say(`using ${tool}`);
    const answer = this.current;
    if (!answer) return;
    const line = document.createElement("details");
    line.className = "call";
    line.innerHTML = '<summary><code></code> <span class="given"></span> <span class="status busy">running</span></summary>';
    line.querySelector("code").textContent = tool;
    line.querySelector(".given").textContent = given(piece.text || "");
    this.add(answer, line);
  }

  // The call is recorded: the page shows what will run, and asks.
  approval() {
    this.say("waiting for your approval");
    look();
  }

  add(answer, node) {
    answer.nodes.push(node);
    this.live.append(node);
  }

  // What a tool gave is recorded: the server shows it, and whom it dispatched, as it will after a reload.
  async refresh() {
    if (this.fetching) { this.again = true; return; }
    this.fetching = true;
    const answer = await ask(this.article.dataset.answer);
    this.fetching = false;
    if (answer && answer.ok && this.article.isConnected) this.show(answer.said);
    if (this.again) { this.again = false; this.refresh(); }
  }

  show(said) {
    const fresh = parsed(said).querySelector(".recorded");
    const shown = this.article.querySelector(".recorded");
    if (!fresh || Number(fresh.dataset.answers) < this.recorded) return;
    keepOpen(shown, fresh);
    shown.replaceWith(fresh);
    htmx.process(fresh);
    for (const answer of this.answers) {
      if (answer.number < this.recorded) answer.nodes.splice(0).forEach((node) => node.remove());
    }
  }
}

function given(json) {
  let read;
  try { read = JSON.parse(json); } catch { return json.slice(0, 100); }
  const values = read && typeof read === "object" ? Object.values(read) : [read];
  const line = values.map((each) => (typeof each === "string" ? each : JSON.stringify(each))).join(" · ").replace(/\s+/g, " ").trim();
  return line.length <= 100 ? line : `${line.slice(0, 99)}…`;
}

function parsed(said) {
  const made = document.createElement("template");
  made.innerHTML = said;
  return made.content;
}

// What somebody has unfolded stays so.
function keepOpen(before, after) {
  for (const open of before.querySelectorAll("details[open][data-call]")) {
    const same = after.querySelector(`[data-call="${open.dataset.call}"]`);
    if (same) same.open = true;
  }
}

// Browsers open six connections to a host, for all tabs together. So a page streams one run, the first
// that has not ended (the others of a session wait for it), and only while somebody looks at it.
const stream = { source: null, article: null, pause: 0 };

// A poll may have told of a run that was just asked for here: the one behind its question stays.
function first() {
  const found = [...document.querySelectorAll("[data-stream]")];
  const last = new Map(found.map((article) => [article.dataset.stream, article]));
  for (const article of found) {
    if (last.get(article.dataset.stream) === article) continue;
    const question = article.previousElementSibling;
    if (question?.matches(".mine") && question.dataset.run === article.dataset.run) question.remove();
    article.remove();
  }
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

function listen(article) {
  const live = new Live(article);
  live.say("thinking");
  const source = new EventSource(article.dataset.stream);
  source.addEventListener("open", () => { live.begin(); stream.pause = 0; });
  source.addEventListener("delta", (event) => live.take(JSON.parse(event.data)));
  for (const end of ["result", "failed"]) source.addEventListener(end, () => { live.complete(); finish(article); });
  // A browser gives a stream up if it was answered with an error, and otherwise begins in its middle.
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
  const made = parsed(answer.said).querySelector("article");
  if (made && made.dataset.stream) return setTimeout(finish, 200, article);
  if (made && article.isConnected) {
    keepOpen(article, made);
    article.replaceWith(made);
    htmx.process(made);
  }
  follow();
}

// The composer

function resize() {
  text.rows = Math.min(10, text.value.split("\n").length);
}

function write(value) {
  text.value = value;
  resize();
  text.focus();
  text.setSelectionRange(value.length, value.length);
}

function edit(article) {
  stopEditing();
  form.elements.replaces.value = article.dataset.run;
  article.classList.add("edited");
  form.querySelector("[data-editing]").hidden = false;
  kept = [...article.querySelectorAll(".attached li")].map((line, place) => {
    const picture = line.querySelector("img");
    return { place, name: picture?.alt || line.querySelector("a").textContent, src: picture?.src };
  });
  showChosen();
  write(article.querySelector("[data-text]").textContent);
}

function stopEditing() {
  form.elements.replaces.value = "";
  form.querySelector("[data-editing]").hidden = true;
  document.querySelectorAll(".edited").forEach((each) => each.classList.remove("edited"));
  kept = [];
  showChosen();
}

function editLast() {
  const mine = [...document.querySelectorAll(".mine[data-run]")].at(-1);
  if (mine) edit(mine);
}

function stop() {
  const button = document.querySelector("[data-stop]");
  if (button) button.click();
  return Boolean(button);
}

// Commands

// The list comes from the server, which carries out what has no function here.
const ACTIONS = {
  "/new": (rest) => openSession(rest),
  "/model": (rest) => chooseModel(rest),
  "/attach": () => form.elements.files.click(),
  "/memory": (rest) => { location.href = `/memory?q=${encodeURIComponent(rest)}`; },
  "/sessions": () => { location.href = "/sessions?role=manager"; },
  "/trace": () => { const link = [...document.querySelectorAll("[aria-label=trace]")].at(-1); if (link) location.href = link.href; },
  "/stop": () => stop(),
};
const COMMANDS = JSON.parse(form.dataset.commands);
const menu = document.querySelector("#commands");

function openSession(name) {
  const field = document.querySelector("#new-session");
  field.value = name || new Date().toISOString().slice(0, 16).replace("T", " ");
  field.form.requestSubmit();
}

function chooseModel(name) {
  const select = form.elements.model;
  const found = [...select.options].findIndex((each) => name && each.text.includes(name));
  if (found >= 0) { select.selectedIndex = found; remember(); } else select.focus();
}

function remember() {
  sessionStorage.setItem(`model ${form.dataset.label}`, form.elements.model.value);
}

function matching() {
  if (!/^\/\S*$/.test(text.value)) return [];
  return COMMANDS.filter(({ name }) => name.startsWith(text.value));
}

function showCommands() {
  const found = matching();
  menu.hidden = !found.length;
  text.setAttribute("aria-expanded", String(!menu.hidden));
  menu.replaceChildren(...found.map(({ name, about }, number) => {
    const line = document.createElement("li");
    line.role = "option";
    line.id = `command-${number}`;
    line.dataset.command = name;
    line.innerHTML = "<b></b> <span class=meta></span>";
    line.firstChild.textContent = name;
    line.lastChild.textContent = about;
    return line;
  }));
  select(0);
}

function select(number) {
  const lines = [...menu.children];
  lines.forEach((line, place) => line.setAttribute("aria-selected", String(place === number)));
  if (lines[number] && !menu.hidden) text.setAttribute("aria-activedescendant", lines[number].id);
  else text.removeAttribute("aria-activedescendant");
}

function selected() {
  return [...menu.children].findIndex((line) => line.getAttribute("aria-selected") === "true");
}

function closeMenu() {
  menu.hidden = true;
  text.setAttribute("aria-expanded", "false");
  text.removeAttribute("aria-activedescendant");
}

// Carries a command out; false: it is a message for the server.
function command(line) {
  const [name, ...rest] = line.split(" ");
  const act = ACTIONS[name];
  closeMenu();
  const takes = name === "/new" || COMMANDS.find((each) => each.name === name)?.takes;
  if (!act || (rest.length && !takes)) return false;
  write("");
  act(rest.join(" ").trim());
  return true;
}

function pick(name) {
  const found = COMMANDS.find((each) => each.name === name);
  closeMenu();
  if (name === "/new" || (found.takes && !["/attach", "/sessions"].includes(name))) return write(`${name} `);
  if (ACTIONS[name]) command(name);
  else { write(name); form.requestSubmit(); }
}

function typed(event) {
  if (event.isComposing) return;
  const open = !menu.hidden;
  const moves = { ArrowDown: 1, ArrowUp: -1 };
  if (open && moves[event.key]) {
    event.preventDefault();
    select((selected() + moves[event.key] + menu.children.length) % menu.children.length);
  } else if (open && (event.key === "Tab" || event.key === "Enter")) {
    event.preventDefault();
    pick(menu.children[selected()].dataset.command);
  } else if (event.key === "Enter" && !event.shiftKey) {
    event.preventDefault();
    if (command(text.value.trim())) return;
    if (text.value.trim() || chosen.length || kept.length) form.requestSubmit();
  } else if (event.key === "ArrowUp" && !text.value) {
    event.preventDefault();
    editLast();
  }
}

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  if (!menu.hidden) closeMenu();
  else if (form.elements.replaces.value) { stopEditing(); write(""); } else stop();
});
text.addEventListener("keydown", typed);
text.addEventListener("input", () => { resize(); showCommands(); });
menu.addEventListener("mousedown", (event) => {
  event.preventDefault();
  const line = event.target.closest("[data-command]");
  if (line) pick(line.dataset.command);
});

// Files

let chosen = [];
let kept = [];

function attach(files) {
  chosen.push(...files);
  showChosen();
}

function showChosen() {
  const given = new DataTransfer();
  chosen.forEach((file) => given.items.add(file));
  form.elements.files.files = given.files;
  form.querySelector("[data-chosen]").replaceChildren(...kept.map(previewKept), ...chosen.map(preview));
}

function preview(file) {
  const picture = file.type.startsWith("image/") ? document.createElement("img") : null;
  if (picture) {
    const reader = new FileReader();
    reader.addEventListener("load", () => { picture.src = reader.result; });
    reader.readAsDataURL(file);
  }
  return fileLine(file.name, picture, () => { chosen = chosen.filter((each) => each !== file); });
}

// A file of the message that is edited goes along, unless it is taken off.
function previewKept(file) {
  const picture = file.src ? document.createElement("img") : null;
  if (picture) picture.src = file.src;
  const line = fileLine(file.name, picture, () => { kept = kept.filter((each) => each !== file); });
  const field = document.createElement("input");
  Object.assign(field, { type: "hidden", name: "keep", value: file.place });
  line.append(field);
  return line;
}

function fileLine(called, picture, taken) {
  const line = document.createElement("li");
  if (picture) { picture.alt = ""; line.append(picture); }
  const name = document.createElement("span");
  name.textContent = called;
  const remove = document.createElement("button");
  Object.assign(remove, { type: "button", className: "icon", textContent: "×" });
  remove.setAttribute("aria-label", `Remove ${called}`);
  remove.addEventListener("click", () => { taken(); showChosen(); text.focus(); });
  line.append(name, remove);
  return line;
}

const drop = document.querySelector("[data-drop]");
drop.addEventListener("dragover", (event) => {
  if (![...event.dataTransfer.types].includes("Files")) return;
  event.preventDefault();
  drop.classList.add("dropping");
});
drop.addEventListener("dragleave", (event) => { if (!drop.contains(event.relatedTarget)) drop.classList.remove("dropping"); });
drop.addEventListener("drop", (event) => {
  drop.classList.remove("dropping");
  if (!event.dataTransfer.files.length) return;
  event.preventDefault();
  attach(event.dataTransfer.files);
  text.focus();
});
text.addEventListener("paste", (event) => {
  if (!event.clipboardData.files.length) return;
  event.preventDefault();
  attach(event.clipboardData.files);
});
form.elements.files.addEventListener("change", () => {
  const added = [...form.elements.files.files];
  if (added.length) attach(added);
  text.focus();
});

// Voice notes: the button records, and sends when it is pressed again. Escape discards.

let recorder = null;

async function record(button) {
  if (recorder) { recorder.stop(); return; }
  const status = form.querySelector("[data-recording]");
  const say = (words) => { status.textContent = words; status.hidden = !words; };
  let sound;
  try {
    sound = await navigator.mediaDevices.getUserMedia({ audio: true });
  } catch {
    say("No microphone: allow it in the browser's settings.");
    return;
  }
  const pieces = [];
  const began = Date.now();
  const tell = () => {
    const seconds = Math.floor((Date.now() - began) / 1000);
    say(`Recording ${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`);
  };
  const clock = setInterval(tell, 500);
  recorder = new MediaRecorder(sound);
  recorder.addEventListener("dataavailable", (event) => { if (event.data.size) pieces.push(event.data); });
  recorder.addEventListener("stop", () => {
    const { mimeType, discarded } = recorder;
    recorder = null;
    clearInterval(clock);
    sound.getTracks().forEach((track) => track.stop());
    button.setAttribute("aria-pressed", "false");
    button.title = "Record a voice note";
    say("");
    if (discarded || !pieces.length) return;
    const type = mimeType.split(";")[0];
    const end = { "audio/ogg": "ogg", "audio/mp4": "m4a" }[type] || "webm";
    attach([new File(pieces, `voice.${end}`, { type })]);
    form.requestSubmit();
  });
  recorder.start(1000);
  button.setAttribute("aria-pressed", "true");
  button.title = "Send the voice note (Esc discards it)";
  tell();
}

form.querySelector("[data-record]").hidden = !(navigator.mediaDevices && window.MediaRecorder);
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || !recorder) return;
  recorder.discarded = true;
  recorder.stop();
});

// Sending

document.body.addEventListener("htmx:afterRequest", (event) => {
  if (event.detail.elt === form && event.detail.successful) {
    chosen = [];
    stopEditing();
    document.querySelector("[data-empty]")?.remove();
    write("");
    toEnd();
  }
  // The run that is streamed tells its end itself; one that waits does not.
  const article = event.detail.elt.closest?.("[data-stop]")?.closest("[data-stream]");
  if (article && article !== stream.article) finish(article);
});
// What was edited goes, and everything after it.
messages.addEventListener("htmx:beforeSwap", (event) => {
  if (event.detail.requestConfig.elt === form && form.elements.replaces.value && event.detail.xhr.status < 400) {
    const mine = messages.querySelector(`.mine[data-run="${form.elements.replaces.value}"]`);
    while (mine?.nextElementSibling) mine.nextElementSibling.remove();
    mine?.remove();
  }
});

async function copy(button) {
  const own = button.closest("article").querySelector("[data-text]");
  const written = own ? own.textContent : (await ask(button.dataset.copy))?.said;
  if (written === undefined) return;
  await navigator.clipboard.writeText(written);
  button.classList.add("done");
  setTimeout(() => button.classList.remove("done"), 1200);
}

document.addEventListener("click", (event) => {
  const on = (selector) => event.target.closest(selector);
  if (on("[data-discard]") && messages.contains(event.target)) { event.preventDefault(); on("article").remove(); }
  if (on("[data-copy]")) copy(on("[data-copy]"));
  if (on("[data-edit]")) edit(on(".mine"));
  if (on("[data-cancel-edit]")) { stopEditing(); write(""); }
  if (on("[data-record]")) record(on("[data-record]"));
  if (on("[data-attach]")) form.elements.files.click();
});
form.elements.model.addEventListener("change", remember);
document.addEventListener("visibilitychange", follow);
document.addEventListener("nexus:here", follow);
document.addEventListener("DOMContentLoaded", () => {
  const model = sessionStorage.getItem(`model ${form.dataset.label}`);
  if (model && [...form.elements.model.options].some((each) => each.value === model)) form.elements.model.value = model;
  htmx.onLoad(follow);
  toEnd();
  follow();
});
