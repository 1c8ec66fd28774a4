// With `?steps`, everything the page does to storage, sockets and the server counts as a step, and before the step a
// test named it waits for the end: a request that is never answered holds the main thread until the page is killed.
if (new URLSearchParams(location.search).has("steps")) {
  let left = Infinity;
  let knock = "";
  const step = () => {
    left -= 1;
    if (left !== 0) return;
    const request = new XMLHttpRequest();
    request.open("GET", knock, false);
    request.send();
  };
  globalThis.pkSteps = {
    step,
    /** The page dies before its n-th step from now. */
    arm(n, url) {
      left = n;
      knock = url;
    },
    /** Whether it has got that far. */
    disarm() {
      const unused = left > 0;
      left = Infinity;
      return unused;
    },
  };
  const before = (prototype, name) => {
    const plain = prototype[name];
    prototype[name] = function (...args) {
      step();
      return plain.apply(this, args);
    };
  };
  before(IDBObjectStore.prototype, "put");
  before(WebSocket.prototype, "send");
  const begin = IDBDatabase.prototype.transaction;
  IDBDatabase.prototype.transaction = function (...args) {
    step();
    const transaction = begin.apply(this, args);
    transaction.addEventListener("complete", step);
    return transaction;
  };
  globalThis.WebSocket = class extends WebSocket {
    constructor(...args) {
      super(...args);
      this.addEventListener("message", step);
    }
  };
  const plain = globalThis.fetch;
  globalThis.fetch = async (...request) => {
    step();
    const response = await plain(...request);
    step();
    return response;
  };
}
