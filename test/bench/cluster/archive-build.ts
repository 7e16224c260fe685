import { deployArchive } from "../../apps.ts";
import { archiveOf } from "../../ports/builder.ts";
import { median } from "../row.ts";
import { type ClusterBench, type Stage, timesOf, took } from "./stage.ts";

const ROUNDS = 3;

const filesOf = (round: string, base: string) => ({
  Dockerfile: `FROM ${base}\nWORKDIR /app\nCOPY . .\nRUN node --version && echo ${round} > round.txt\nCMD ["node", "server.js"]\n`,
  "server.js": `require("node:http").createServer((_, r) => r.end("hello")).listen(process.env.PORT);\n`,
});

/** An archive, from POST to `builtAt`, over the same `buildah bud` and `push` by hand in the same kind of pod. */
export const archiveBuild: ClusterBench = {
  name: "archive-build",
  run: async (stage) => {
    const { door, run } = stage;
    const { S } = await door.environment();
    const service = S("built");
    await door.must("POST", service.slice(0, service.lastIndexOf("/")), { name: "built", type: "web" });
    const base = `${run.registry.push}/${run.images["node-slim"]}`;
    const ours = async (version: number) => {
      const files = Object.entries(filesOf(`berth-${version}`, base));
      const archive = await archiveOf(files.map(([name, content]) => ({ name, content })));
      await deployArchive(door, service, archive);
      const { createdAt, builtAt } = await timesOf(door, `${service}/deployments/${version}`, "builtAt");
      return Date.parse(builtAt!) - Date.parse(createdAt);
    };
    const space = await stage.kubectl.namespace();
    try {
      const ratios: number[] = [];
      for (let round = 1; round <= ROUNDS; round++) {
        const hand = await took(() => byHand(stage, space.name, filesOf(`hand-${round}`, base), round));
        ratios.push((await ours(round)) / hand);
      }
      return { name: "archive-build", value: median(ratios), unit: "x buildah by hand", goal: "<= 1.3" };
    } finally {
      await space.remove();
    }
  },
};

const script = `set -e
export XDG_RUNTIME_DIR=/run/user/1000/x TMPDIR=/var/tmp; mkdir -m 700 $XDG_RUNTIME_DIR; mkdir /var/tmp/source
cp -L /source/* /var/tmp/source
buildah bud --storage-driver overlay --format oci --layers=false --pull --tls-verify=false -t "$TAG" /var/tmp/source
buildah push --storage-driver overlay --quiet --tls-verify=false "$TAG"
`;

/** One pod that does it, until it is done. */
async function byHand(
  { kubectl, run }: Stage,
  namespace: string,
  data: object,
  round: number,
): Promise<void> {
  const name = `build-${round}`;
  const empty = (volume: string, extra = {}) => ({ name: volume, emptyDir: extra });
  const securityContext = {
    runAsUser: 1000,
    runAsGroup: 1000,
    runAsNonRoot: true,
    capabilities: { drop: ["ALL"], add: ["SETUID", "SETGID"] },
    seccompProfile: { type: "Localhost", localhostProfile: "build.json" },
  };
  const mounts = {
    storage: "/home/builder/.local/share/containers",
    work: "/var/tmp",
    run: "/run/user/1000",
    source: "/source",
  };
  const container = {
    name: "build",
    image: `${run.registry.pull}/${run.images.builder}`,
    command: ["sh", "-c", script],
    env: [{ name: "TAG", value: `${run.registry.push}/${namespace}/app:${round}` }],
    securityContext,
    volumeMounts: Object.entries(mounts).map(([volume, mountPath]) => ({ name: volume, mountPath })),
  };
  await kubectl.apply(
    { apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace }, data },
    {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name, namespace },
      spec: {
        restartPolicy: "Never",
        automountServiceAccountToken: false,
        securityContext: { fsGroup: 1000 },
        containers: [container],
        volumes: [
          empty("storage"),
          empty("work"),
          empty("run", { medium: "Memory" }),
          { name: "source", configMap: { name } },
        ],
      },
    },
  );
  const phase = "--for=jsonpath={.status.phase}=Succeeded";
  await kubectl.call("wait", "-n", namespace, phase, "--timeout=120s", `pod/${name}`);
}
