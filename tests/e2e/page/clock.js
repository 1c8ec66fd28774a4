// With `?clock=fake`, clocks stand still and timers fire only when a test says so. Loaded before the package.
if (new URLSearchParams(location.search).get("clock") === "fake") {
  const wallStart = Date.now();
  const timers = new Map();
  let elapsed = 0;
  let ids = 0;
  // Real tasks go on: sockets and storage answer in them.
  const realSetTimeout = globalThis.setTimeout.bind(globalThis);

  Date.now = () => wallStart + Math.round(elapsed);
  performance.now = () => elapsed;

  const add = (callback, delay, every, args) => {
    ids += 1;
    const wait = Math.max(0, Number(delay) || 0);
    timers.set(ids, { at: elapsed + wait, callback: () => callback(...args), every: every ? Math.max(1, wait) : undefined });
    return ids;
  };
  globalThis.setTimeout = (callback, delay, ...args) => add(callback, delay, false, args);
  globalThis.setInterval = (callback, delay, ...args) => add(callback, delay, true, args);
  globalThis.clearTimeout = (id) => void timers.delete(id);
  globalThis.clearInterval = globalThis.clearTimeout;

  globalThis.fakeClock = {
    /** Ms since the page was loaded. */
    get elapsed() {
      return elapsed;
    },
    /** When the next timer is due, or undefined. */
    get next() {
      return timers.size === 0 ? undefined : Math.min(...[...timers.values()].map(({ at }) => at));
    },
    /** Lets real tasks run: sockets and storage answer in them. */
    realTask: () => new Promise((resolve) => realSetTimeout(resolve, 1)),
    /** Moves on by so much, firing what comes due in order; between two timers real tasks run. */
    async advance(ms) {
      const end = elapsed + ms;
      for (;;) {
        const [id, timer] = [...timers].sort(([a, x], [b, y]) => x.at - y.at || a - b)[0] ?? [];
        if (timer === undefined || timer.at > end) break;
        elapsed = Math.max(elapsed, timer.at);
        if (timer.every === undefined) timers.delete(id);
        else timer.at += timer.every;
        timer.callback();
        await fakeClock.realTask();
      }
      elapsed = end;
    },
  };
}
