import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readRun } from "../support/cluster-run.ts";

export type Kubectl = Awaited<ReturnType<typeof connectKubectl>>;

/** Returns kubectl for the cluster of this run. */
export async function connectKubectl() {
  const { kubectl, kubeconfig } = await readRun();
  const env = { ...process.env, KUBECONFIG: kubeconfig };

  function call(args: string[], input = ""): Promise<string> {
    return new Promise((done, fail) => {
      const child = execFile(kubectl, args, { env, maxBuffer: 16 << 20 }, (error, stdout, stderr) =>
        error ? fail(new Error(`kubectl ${args.join(" ")}: ${stderr || error.message}`)) : done(stdout),
      );
      child.stdin?.end(input);
    });
  }

  return {
    call: (...args: string[]) => call(args),
    /** Applies objects. */
    apply: (...objects: object[]) =>
      call(["apply", "-f", "-"], JSON.stringify({ apiVersion: "v1", kind: "List", items: objects })),
    /** Creates a namespace; `remove` deletes it with everything in it. */
    async namespace(): Promise<{ name: string; remove: () => Promise<unknown> }> {
      const name = `probe-${randomUUID().slice(0, 8)}`;
      await call(["create", "namespace", name]);
      return { name, remove: () => call(["delete", "namespace", name, "--wait=false"]) };
    },
  };
}
