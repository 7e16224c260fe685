import { execFile, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { createInterface } from "node:readline";
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
    /** Calls it with this input. */
    send: (input: string, ...args: string[]) => call(args, input),
    /** Applies objects. */
    apply: (...objects: object[]) =>
      call(["apply", "-f", "-"], JSON.stringify({ apiVersion: "v1", kind: "List", items: objects })),
    /** Calls `use` with the origin at which a port of a pod is reached from here meanwhile. */
    async forwarded<T>(
      namespace: string,
      pod: string,
      port: number,
      use: (origin: string) => Promise<T>,
    ): Promise<T> {
      const args = ["-n", namespace, "port-forward", `pod/${pod}`, `:${port}`];
      const child = spawn(kubectl, args, { env, stdio: ["ignore", "pipe", "inherit"], timeout: 120_000 });
      try {
        for await (const line of createInterface({ input: child.stdout })) {
          const address = /127\.0\.0\.1:\d+/.exec(line);
          if (address) return await use(`http://${address[0]}`);
        }
        throw new Error(`kubectl does not forward port ${port} of ${pod}`);
      } finally {
        child.kill();
      }
    },
    /** Creates a namespace; `remove` deletes it with everything in it. */
    async namespace(): Promise<{ name: string; remove: () => Promise<unknown> }> {
      const name = `probe-${randomUUID().slice(0, 8)}`;
      await call(["create", "namespace", name]);
      return { name, remove: () => call(["delete", "namespace", name, "--wait=false"]) };
    },
  };
}
