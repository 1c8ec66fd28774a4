// Loaded first: whatever nobody handled is a fault of the package, and ends the test.
globalThis.pkErrors = [];
addEventListener("error", (event) => pkErrors.push(String(event.error?.stack ?? event.message)));
addEventListener("unhandledrejection", (event) => pkErrors.push(`unhandled: ${String(event.reason?.stack ?? event.reason)}`));

// Every socket that was ever made, and whether another was alive when it was made.
globalThis.pkSockets = [];
globalThis.pkSocketsAtOnce = 0;
globalThis.WebSocket = class extends WebSocket {
  constructor(...args) {
    super(...args);
    pkSockets.push(this);
    pkSocketsAtOnce = Math.max(pkSocketsAtOnce, pkSockets.filter(({ readyState }) => readyState <= WebSocket.OPEN).length);
  }
};
