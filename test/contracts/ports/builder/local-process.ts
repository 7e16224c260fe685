import { join } from "node:path";
import { createLocalBuilder } from "../../../../services/deployer/builder/local/adapter.ts";
import { createDiskStore } from "../../../../services/deployer/store/disk/adapter.ts";

/** A process with a local builder, for tests that kill it. Forked with the builder's folder and the request. */
const [, , root, request] = process.argv as [string, string, string, string];
const store = createDiskStore({
  folder: join(root, "store"),
  baseUrl: "",
  secrets: ["x"],
  log: { warn() {} },
});
const builder = createLocalBuilder({ folder: join(root, "artifacts"), store, environment: process.env });
const log = (line: string) => void process.send!(line);
await builder.build({ ...JSON.parse(request), log, onStage() {} }, new AbortController().signal);
