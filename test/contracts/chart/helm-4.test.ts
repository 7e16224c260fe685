import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { promisify } from "node:util";
import { loadAllYaml } from "@kubernetes/client-node";
import { describe, expect, test } from "vitest";
import { programPath } from "../../../deploy/cluster/node/programs.ts";
import { findGoProgram } from "../../support/servers/go-program.ts";
import { chartFolder, ciValues, helmProgram, type Manifest, podsOf } from "./render.ts";

const WHAT = "the chart is rendered by Helm 4";
const isWanted = process.env.TEST_HELM_4 !== undefined || existsSync(await programPath("helm-4"));
// Each first run of all tests would wait for it for minutes.
if (!isWanted) console.log(`Skipped: ${WHAT}. It is built once where TEST_HELM_4 is set.`);
const helm4 = isWanted ? await findGoProgram("helm-4", WHAT) : undefined;

/** Returns what a helm program prints, or the error that it prints. */
async function run(program: string, ...args: string[]): Promise<string> {
  const options = { maxBuffer: 64 * 1024 * 1024 };
  return promisify(execFile)(program, args, options).then(
    ({ stdout }) => stdout,
    ({ stderr }) => stderr,
  );
}

const MORE: Record<string, string[]> = {
  bundled: [
    ...["--set-json", 'backup={"enabled":true,"endpoint":"https://s3.example.com","bucket":"backups"}'],
    ...["--set", "backup.existingSecret=my-backup", "--set", "uninstall.removeApps=true"],
    ...["--set", "bundledTls.mode=require", "--set", "bundledTls.existingSecret=my-tls"],
  ],
  external: [],
};

describe.skipIf(!helmProgram || !helm4)("with Helm 4", () => {
  test.each(Object.keys(MORE))("the chart is what Helm 3 makes of it: %s", async (values) => {
    const args = [
      ...["template", "berth", chartFolder, "--namespace", "platform", "--kube-version", "1.36.0"],
      ...["--api-versions", "gateway.networking.k8s.io/v1", "-f", ciValues(values), ...MORE[values]!],
    ];
    const [three, four] = (await Promise.all([run(helmProgram!, ...args), run(helm4!, ...args)])).map(
      (text) => loadAllYaml(text).filter(Boolean),
    );
    expect(four!.length).toBeGreaterThan(50);
    expect(four).toEqual(three);
    // Helm 4 installs by server-side apply, which refuses lists with two entries of one key.
    for (const { name, spec } of podsOf(four as Manifest[])) {
      const twice = (what: string, keys: string[] = []) =>
        keys.filter((key, at) => keys.indexOf(key) < at).map((key) => `${name}: ${what} ${key}`);
      const containers = [...(spec.initContainers ?? []), ...spec.containers];
      expect([
        ...twice(
          "volume",
          spec.volumes?.map((one) => one.name),
        ),
        ...twice(
          "container",
          containers.map((one) => one.name),
        ),
        ...containers.flatMap(({ env, ports, volumeMounts }) => [
          ...twice(
            "variable",
            env?.map((one) => one.name),
          ),
          ...twice(
            "port",
            ports?.map((one) => `${one.containerPort} ${one.protocol}`),
          ),
          ...twice(
            "mount",
            volumeMounts?.map((one) => one.mountPath),
          ),
        ]),
      ]).toEqual([]);
    }
  });

  test("the chart has no fault, and refuses values with the same sentences", async () => {
    for (const values of Object.keys(MORE))
      expect(
        await run(helm4!, "lint", chartFolder, "--kube-version", "1.36.0", "-f", ciValues(values)),
      ).toContain("0 chart(s) failed");
    for (const wrong of ["keys.existingSecret=", "image.repository=", "registry.nodePort=80", "unknown=1"]) {
      const args = ["template", "berth", chartFolder, "-f", ciValues("bundled"), "--set", wrong];
      const [three, four] = await Promise.all([run(helmProgram!, ...args), run(helm4!, ...args)]);
      const sentences = (text: string) => /(^ +- .+$|^- at .+$)/m.exec(text)?.[0];
      expect(sentences(four)).toMatch(/existingSecret|image\.repository|nodePort|unknown/);
      expect(sentences(four)).toBe(sentences(three));
    }
  });
});
