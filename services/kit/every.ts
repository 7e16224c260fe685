/**
 * Runs `work` every `ms` milliseconds, one run at a time, and passes what it throws to `failed`. It does not keep the
 * process alive. Returns what ends it; a run that is under way goes on.
 */
export function every(ms: number, work: () => Promise<unknown>, failed: (error: unknown) => void) {
  let running = false;
  const timer = setInterval(async () => {
    if (running) return;
    running = true;
    await work().catch(failed);
    running = false;
  }, ms);
  timer.unref();
  return () => clearInterval(timer);
}
