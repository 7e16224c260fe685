import { Readable } from "node:stream";
import { createDiskStore } from "../../../../services/deployer/store/disk/adapter.ts";

/** A process in the middle of a put, for tests that kill it. Forked with the store's folder. */
const store = createDiskStore({
  folder: process.argv[2]!,
  baseUrl: "",
  secrets: ["x"],
  log: { warn() {} },
});
async function* endless() {
  yield Buffer.from("half of it");
  process.send!("writing");
  await new Promise((resolve) => setTimeout(resolve, 1_000_000));
}
await store.put("key", Readable.from(endless()), "text/plain");
