import { copyFile, mkdir, readdir, readFile, rm, rmdir, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { cgroup, folders, registry, runtimeDir } from "../settings.ts";
import { makeCertificates } from "./certificates.ts";
import { type Program, programPath } from "./programs.ts";

const templates = join(import.meta.dirname, "../templates");

/** The path of each template's file in the node's folder. */
const files: Record<string, string> = {
  "containerd.toml": "containerd.toml",
  "hosts.toml": `registries/${registry.pull}/hosts.toml`,
  "kubelet.yaml": "kubelet.yaml",
  "kube-proxy.yaml": "kube-proxy.yaml",
  "pods.conflist": "cni/pods.conflist",
  "registry.yaml": "registry.yaml",
  Corefile: "Corefile",
  "seccomp-build.json": "kubelet/seccomp/build.json",
  "storage.json": "storage.json",
  "storage-helper.yaml": "storage-helper.yaml",
};

/** The program behind each command name, in one folder of links. */
const links: Record<string, Program> = {
  etcd: "kubernetes",
  "kube-apiserver": "kubernetes",
  "kube-controller-manager": "kubernetes",
  "kube-scheduler": "kubernetes",
  kubelet: "kubernetes",
  "kube-proxy": "kubernetes",
  kubectl: "kubernetes",
  coredns: "coredns",
  "network-policy": "network-policy",
  "local-path-provisioner": "local-path-provisioner",
  helm: "helm",
  versitygw: "versitygw",
  "nats-server": "nats-server",
  registry: "registry",
  pause: "pause",
};

export const programLinks = join(folders.node, "bin");

/** Returns a template with its placeholders replaced. */
export async function template(name: string, values: Record<string, string> = {}): Promise<string> {
  const text = await readFile(join(templates, name), "utf8");
  const all: Record<string, string> = { DIR: folders.node, ...values };
  return text.replaceAll(/@([A-Z]+)@/g, (whole, key) => all[key] ?? whole);
}

/** Prepares the node's folder for a new cluster: only images and the registry's content remain from the previous one. */
export async function prepareNode(images: { helper: string }): Promise<void> {
  await removeState();
  for (const dir of ["log", "pod-logs", "volumes", "volume-plugins", "objects", "registry"])
    await mkdir(join(folders.node, dir), { recursive: true });
  await mkdir(runtimeDir, { recursive: true });
  for (const [from, to] of Object.entries(files)) {
    const target = join(folders.node, to);
    await mkdir(dirname(target), { recursive: true });
    await writeFile(target, await template(from, { IMAGE: images.helper }));
  }
  await copyFile("/etc/resolv.conf", join(folders.node, "resolv.conf"));
  await makeCertificates();
  await linkPrograms();
  await makeCgroups();
}

/** Removes the files of a cluster that the next one must not find. */
export async function removeState(): Promise<void> {
  const kept = new Set(["containerd", "registry", "log"]);
  for (const name of await readdir(folders.node).catch(() => [])) {
    if (!kept.has(name)) await rm(join(folders.node, name), { recursive: true, force: true });
  }
}

/** Links the programs that this repository's sources are built into from the node's folder. */
export async function linkPrograms(): Promise<void> {
  await mkdir(programLinks, { recursive: true });
  for (const [name, program] of Object.entries(links)) {
    await rm(join(programLinks, name), { force: true });
    await symlink(await programPath(program), join(programLinks, name));
  }
}

async function cgroupMounts(): Promise<string[]> {
  const mounts = (await readFile("/proc/mounts", "utf8")).split("\n").map((line) => line.split(" "));
  return mounts.filter(([, , type]) => type === "cgroup" || type === "cgroup2").map(([, dir]) => dir!);
}

/** The kubelet needs its root cgroup in every hierarchy; a v1 cpuset starts empty and must be filled. */
async function makeCgroups(): Promise<void> {
  for (const mount of await cgroupMounts()) {
    await mkdir(join(mount, cgroup), { recursive: true });
    for (const file of ["cpuset.cpus", "cpuset.mems"]) {
      const value = await readFile(join(mount, file), "utf8").catch(() => undefined);
      if (value !== undefined) await writeFile(join(mount, cgroup, file), value);
    }
  }
}

/** Removes the cgroups. Returns false while a process that is ending is still in one of them. */
export async function removeCgroups(): Promise<boolean> {
  const gone: boolean[] = [];
  for (const mount of await cgroupMounts()) gone.push(await removeTree(join(mount, cgroup)));
  return gone.every(Boolean);
}

/** Removes a cgroup: only folders can be removed in it, the innermost first. */
async function removeTree(dir: string): Promise<boolean> {
  const entries = await readdir(dir, { withFileTypes: true }).catch(() => []);
  for (const entry of entries) if (entry.isDirectory()) await removeTree(join(dir, entry.name));
  return rmdir(dir).then(
    () => true,
    (error) => error.code === "ENOENT",
  );
}
