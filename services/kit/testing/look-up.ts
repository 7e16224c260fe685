import { createHook } from "node:async_hooks";

/** Returns whether a name was looked up by one of the few threads of this process until `work` was done, or failed. */
export async function looksUpByThread(work: () => Promise<unknown>): Promise<boolean> {
  let isSeen = false;
  const hook = createHook({
    init(_id, type) {
      isSeen ||= type === "GETADDRINFOREQWRAP";
    },
  }).enable();
  await work().catch(() => {});
  hook.disable();
  return isSeen;
}
