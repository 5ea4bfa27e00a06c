// Turns notifications on and off in this browser.
"use strict";

(() => {
  const place = document.querySelector("[data-push]");
  if (!place) return;
  const status = document.querySelector("[data-push-status]");
  const on = place.querySelector("[data-push-on]");
  const off = place.querySelector("[data-push-off]");

  const say = (what) => { status.textContent = what ? status.dataset[what] : ""; };

  function bytes(text) {
    const plain = atob(text.replace(/-/g, "+").replace(/_/g, "/"));
    return Uint8Array.from(plain, (each) => each.charCodeAt(0));
  }

  const same = (buffer) => {
    const ours = bytes(place.dataset.key);
    const theirs = new Uint8Array(buffer || []);
    return theirs.length === ours.length && theirs.every((each, index) => each === ours[index]);
  };

  async function current() {
    const registration = await navigator.serviceWorker.register("/sw.js");
    return [registration, await registration.pushManager.getSubscription()];
  }

  async function look() {
    if (!("serviceWorker" in navigator) || !("PushManager" in window) || !("Notification" in window)) return say("unsupported");
    const [, found] = await current();
    on.hidden = Boolean(found);
    off.hidden = !found;
    if (Notification.permission === "denied") say("denied");
  }

  async function send(subscription) {
    const { endpoint, keys } = subscription.toJSON();
    const answer = await fetch("/notifications", {
      method: "POST",
      body: new URLSearchParams({ endpoint, p256dh: keys.p256dh, auth: keys.auth }),
    });
    if (!answer.ok) throw new Error(String(answer.status));
  }

  on.addEventListener("click", async () => {
    on.disabled = true;
    say("");
    try {
      if (await Notification.requestPermission() !== "granted") return say("denied");
      let [registration, found] = await current();
      // One made for another key of the home is of no use.
      if (found && !same(found.options.applicationServerKey)) { await found.unsubscribe(); found = null; }
      found = found || await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: bytes(place.dataset.key) });
      await send(found);
      location.reload();
    } catch (error) {
      console.warn(error);
      say("failed");
    } finally {
      on.disabled = false;
    }
  });
  off.addEventListener("click", async () => {
    const [, found] = await current();
    if (found) {
      await found.unsubscribe();
      await fetch("/notifications/off", { method: "POST", body: new URLSearchParams({ endpoint: found.endpoint }) });
    }
    location.reload();
  });
  look();
})();
