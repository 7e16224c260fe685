/**
 * Runs inside the node's namespaces, below its first process: sets up the network and starts the components in the
 * order they need. A component that exits is restarted; all end with the first process.
 */
import { spawn } from "node:child_process";
import { appendFileSync, existsSync, openSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { run, until, works } from "../commands.ts";
import {
  cable,
  folders,
  kubeconfig,
  logFile,
  network,
  nodeName,
  objectStore,
  runtimeDir,
} from "../settings.ts";
import { certificates } from "./certificates.ts";
import { programLinks } from "./node-files.ts";

const node = folders.node;
const log = (line: string) => appendFileSync(logFile("node"), `${new Date().toISOString()} ${line}\n`);
const file = (name: string) => join(certificates, name);
const access = (user: string) => join(node, "kubeconfig", user);
const kubectl = (...args: string[]) =>
  run(join(programLinks, "kubectl"), ["--kubeconfig", kubeconfig, ...args]);

function start(
  name: string,
  args: string[],
  { env, program }: { env?: NodeJS.ProcessEnv; program?: string } = {},
) {
  const output = openSync(logFile(name), "a");
  const path = program ?? join(programLinks, name);
  const child = spawn(path, args, { stdio: ["ignore", output, output], env: { ...process.env, ...env } });
  child.on("error", (error) => log(`${name}: ${error.message}`));
  child.on("exit", (code, signal) => {
    log(`${name} exited (${signal ?? code}) and is being restarted`);
    setTimeout(start, 1000, name, args, { env, program });
  });
}

async function joinNetwork(): Promise<void> {
  await run("mount", ["--make-rshared", "/"]); // the kubelet's mounts must reach the containers
  await writeFile("/proc/sys/kernel/hostname", nodeName);
  await run("ip", ["link", "set", "lo", "up"]);
  await until("the cable to the host", () => works("ip", ["link", "show", cable.node]));
  await run("ip", ["address", "add", `${network.node}/24`, "dev", cable.node]);
  await run("ip", ["link", "set", cable.node, "up"]);
  await run("ip", ["route", "add", "default", "via", network.host]);
  await writeFile("/proc/sys/net/ipv4/ip_forward", "1");
}

function startApi(): void {
  const etcd = "http://127.0.0.1:2379";
  const clients = [`--listen-client-urls=${etcd}`, `--advertise-client-urls=${etcd}`];
  const dir = `--data-dir=${join(node, "etcd")}`;
  start("etcd", [dir, "--unsafe-no-fsync", ...clients, "--listen-peer-urls=http://127.0.0.1:2380"]);
  start("kube-apiserver", [
    `--etcd-servers=${etcd}`,
    `--bind-address=${network.node}`,
    `--advertise-address=${network.node}`,
    "--secure-port=6443",
    `--tls-cert-file=${file("apiserver.crt")}`,
    `--tls-private-key-file=${file("apiserver.key")}`,
    `--client-ca-file=${file("ca.crt")}`,
    `--kubelet-client-certificate=${file("apiserver-kubelet.crt")}`,
    `--kubelet-client-key=${file("apiserver-kubelet.key")}`,
    `--kubelet-certificate-authority=${file("ca.crt")}`,
    "--kubelet-preferred-address-types=InternalIP",
    "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
    `--service-account-key-file=${file("accounts.pub")}`,
    `--service-account-signing-key-file=${file("accounts.key")}`,
    `--service-cluster-ip-range=${network.services}`,
    "--authorization-mode=Node,RBAC",
    "--enable-admission-plugins=NodeRestriction",
    "--allow-privileged=true",
  ]);
}

function startControllers(): void {
  const common = (user: string) => [
    ...["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"].map(
      (flag) => `--${flag}=${access(user)}`,
    ),
    "--bind-address=127.0.0.1",
    "--leader-elect=false",
  ];
  start("kube-controller-manager", [
    ...common("controller-manager"),
    `--service-account-private-key-file=${file("accounts.key")}`,
    `--root-ca-file=${file("ca.crt")}`,
    `--cluster-signing-cert-file=${file("ca.crt")}`,
    `--cluster-signing-key-file=${file("ca.key")}`,
    "--use-service-account-credentials=true",
    "--allocate-node-cidrs=true",
    `--cluster-cidr=${network.pods}`,
    "--node-cidr-mask-size=24",
    `--service-cluster-ip-range=${network.services}`,
  ]);
  start("kube-scheduler", common("scheduler"));
}

function startNode(): void {
  start("kubelet", [
    `--config=${join(node, "kubelet.yaml")}`,
    `--kubeconfig=${access("kubelet")}`,
    `--hostname-override=${nodeName}`,
    `--node-ip=${network.node}`,
    `--root-dir=${join(node, "kubelet")}`,
  ]);
  start("kube-proxy", [`--config=${join(node, "kube-proxy.yaml")}`, `--hostname-override=${nodeName}`]);
  start("coredns", ["-conf", join(node, "Corefile")]);
}

/** Starts what needs the node to be registered: without it the policy controller panics. */
function startExtras(): void {
  const services = `-services=${network.services}`;
  start("network-policy", [
    `-kubeconfig=${kubeconfig}`,
    `-node=${nodeName}`,
    services,
    "-health=127.0.0.1:20244",
  ]);
  const options = {
    config: join(node, "storage.json"),
    "helper-pod-file": join(node, "storage-helper.yaml"),
    "provisioner-name": "berth.dev/folders",
    namespace: "storage",
    "configmap-name": "storage",
    "service-account-name": "helper",
    kubeconfig,
  };
  const args = Object.entries(options).flatMap(([flag, value]) => [`--${flag}`, value]);
  start("local-path-provisioner", ["start", ...args]);
}

await joinNetwork();
startApi();
start("registry", ["serve", join(node, "registry.yaml")], { env: { OTEL_TRACES_EXPORTER: "none" } });
start("containerd", ["-c", join(node, "containerd.toml")], { program: "containerd" });
const { endpoint, accessKey, secretKey } = objectStore;
start("versitygw", ["--port", endpoint.replace("http://", ""), "posix", join(node, "objects")], {
  env: { ROOT_ACCESS_KEY: accessKey, ROOT_SECRET_KEY: secretKey },
});
await until("the API", async () => (await kubectl("get", "--raw", "/readyz")) === "ok");
startControllers();
await until("containerd", async () => existsSync(join(runtimeDir, "containerd.sock")));
startNode();
await until("the node", () => kubectl("get", "node", nodeName).then(() => true));
startExtras();
await until("network policies", async () => (await fetch("http://127.0.0.1:20244/healthz")).ok);
log("all components run");
