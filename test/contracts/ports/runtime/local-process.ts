import { startRouter } from "../../../../services/deployer/runtime/local/routing/router.ts";
import { createLocalRuntime } from "../../../../services/deployer/runtime/local/runtime.ts";

/**
 * A process with a local runtime, for tests that kill it. Forked with the runtime's options as the only argument; answers
 * messages `{id, call, args}` with `{id, result}` or `{id, error}`.
 */
const log = { info() {}, warn: console.warn, error: console.error };
const router = await startRouter({ port: 0, log });
const runtime = createLocalRuntime({ ...JSON.parse(process.argv[2]!), router, log });
const calls = runtime as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;

process.on("message", async ({ id, call, args }: { id: number; call: string; args: unknown[] }) => {
  try {
    process.send!({ id, result: call === "port" ? router.port : await calls[call]!(...args) });
  } catch (error) {
    process.send!({ id, error: (error as Error).message });
  }
});
process.on("disconnect", () => process.exit());
