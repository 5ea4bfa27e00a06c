// Shows notifications while no page of the dashboard is open. Nothing is cached: pages come from the home alone.
"use strict";

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

async function show(told) {
  const windows = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
  // Whoever looks at that very chat sees it there.
  if (windows.some((each) => each.focused && new URL(each.url).pathname === told.url)) return;
  await self.registration.showNotification(told.title, {
    body: told.body,
    tag: told.tag,
    icon: "/static/icon-192.png",
    data: { url: told.url },
  });
}

self.addEventListener("push", (event) => {
  if (event.data) event.waitUntil(show(event.data.json()));
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const url = new URL(event.notification.data.url, self.location.origin).href;
  event.waitUntil((async () => {
    const windows = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
    const open = windows.find((each) => each.url === url) || windows[0];
    if (!open) return self.clients.openWindow(url);
    await open.focus();
    return open.url === url ? open : open.navigate(url);
  })());
});
