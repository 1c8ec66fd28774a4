// Loaded first: whatever nobody handled is a fault of the package, and ends the test.
globalThis.pkErrors = [];
addEventListener("error", (event) => pkErrors.push(String(event.error?.stack ?? event.message)));
addEventListener("unhandledrejection", (event) => pkErrors.push(`unhandled: ${String(event.reason?.stack ?? event.reason)}`));

// Every socket that was ever made, and whether another was alive when it was made.
globalThis.pkSockets = [];
globalThis.pkSocketsAtOnce = 0;
// Every frame and its time, for a person who reads a failure, and for measuring.
globalThis.pkFrames = [];
globalThis.pkPlainWebSocket = WebSocket;
const noteFrame = (way, data) => pkFrames.push({ at: performance.now(), way, data: typeof data === "string" ? data : "binary" });
globalThis.WebSocket = class extends WebSocket {
  constructor(...args) {
    super(...args);
    pkSockets.push(this);
    // The first listener: the time is that of the frame's arrival, before the package has seen it.
    this.addEventListener("message", ({ data }) => noteFrame("<", data));
    pkSocketsAtOnce = Math.max(pkSocketsAtOnce, pkSockets.filter(({ readyState }) => readyState <= WebSocket.OPEN).length);
  }

  send(data) {
    noteFrame(">", data);
    super.send(data);
  }
};
