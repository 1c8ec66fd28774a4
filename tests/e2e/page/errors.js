// Loaded first: whatever nobody handled is a fault of the package, and ends the test.
globalThis.pkErrors = [];
addEventListener("error", (event) => pkErrors.push(String(event.error?.stack ?? event.message)));
addEventListener("unhandledrejection", (event) => pkErrors.push(`unhandled: ${String(event.reason?.stack ?? event.reason)}`));

// Every socket that was ever made, and whether another was alive when it was made.
globalThis.pkSockets = [];
globalThis.pkSocketsAtOnce = 0;
// Every frame, for a person who reads a failure.
globalThis.pkFrames = [];
globalThis.pkPlainWebSocket = WebSocket;
globalThis.WebSocket = class extends WebSocket {
  constructor(...args) {
    super(...args);
    pkSockets.push(this);
    this.addEventListener("message", ({ data }) => pkFrames.push(`< ${typeof data === "string" ? data : "binary"}`));
    pkSocketsAtOnce = Math.max(pkSocketsAtOnce, pkSockets.filter(({ readyState }) => readyState <= WebSocket.OPEN).length);
  }

  send(data) {
    pkFrames.push(`> ${typeof data === "string" ? data : "binary"}`);
    super.send(data);
  }
};
