// Uploading an export: dropped or chosen, sent as it is, with its progress.
"use strict";

document.querySelectorAll("[data-drop]").forEach((form) => {
  const input = form.querySelector("input[type=file]");
  const bar = form.querySelector("progress");
  const status = form.querySelector("[data-drop-status]");

  function refuse(text) {
    bar.hidden = true;
    input.disabled = false;
    input.value = "";
    status.textContent = text;
    status.classList.add("bad");
  }

  function send(file) {
    if (!file || input.disabled) return;
    if (file.size > Number(form.dataset.most)) return refuse("This file is too large. Use nexus import instead.");
    const request = new XMLHttpRequest();
    input.disabled = true;
    bar.hidden = false;
    status.classList.remove("bad");
    status.textContent = `Uploading ${file.name}`;
    request.upload.addEventListener("progress", (event) => {
      if (event.lengthComputable) bar.value = (100 * event.loaded) / event.total;
    });
    request.addEventListener("load", () => {
      let answer = {};
      try { answer = JSON.parse(request.responseText); } catch { /* told below */ }
      if (request.status === 201) location.assign(`/import/${answer.id}`);
      else refuse(`${answer.detail || "The upload failed"}. ${answer.hint || ""}`);
    });
    for (const end of ["error", "abort", "timeout"]) {
      request.addEventListener(end, () => refuse("The upload broke off. Try again."));
    }
    request.open("POST", `${form.dataset.drop}?name=${encodeURIComponent(file.name)}`);
    request.setRequestHeader("content-type", "application/octet-stream");
    request.send(file);
  }

  input.addEventListener("change", () => send(input.files[0]));
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const over of ["dragenter", "dragover"]) {
    form.addEventListener(over, (event) => { event.preventDefault(); form.classList.add("over"); });
  }
  form.addEventListener("dragleave", () => form.classList.remove("over"));
  form.addEventListener("drop", (event) => {
    event.preventDefault();
    form.classList.remove("over");
    const files = event.dataTransfer.files;
    if (files.length > 1) refuse("One file at a time. Pack several into a zip archive.");
    else send(files[0]);
  });
});
