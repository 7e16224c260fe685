import { existsSync } from "node:fs";
import { ClusterFailure, run, timed, works } from "../run/commands.ts";

/** Debian packages by a file each brings. */
const packages = {
  containerd: "/usr/bin/containerd",
  runc: "/usr/sbin/runc",
  "containernetworking-plugins": "/usr/lib/cni/bridge",
  iptables: "/usr/sbin/iptables",
  ipset: "/usr/sbin/ipset",
  iproute2: "/usr/sbin/ip",
  "docker-registry": "/usr/bin/docker-registry",
  buildah: "/usr/bin/buildah",
  mmdebstrap: "/usr/bin/mmdebstrap",
  openssl: "/usr/bin/openssl",
};

const missing = () =>
  Object.keys(packages).filter((name) => !existsSync(packages[name as keyof typeof packages]));

/** Why this machine cannot have the cluster; undefined when it can. */
export async function obstacle(): Promise<string | undefined> {
  if (process.platform !== "linux") return "it needs Linux";
  if (process.getuid?.() !== 0) return "it needs root";
  if (process.arch !== "x64" && process.arch !== "arm64") return `it was never built for ${process.arch}`;
  if (
    !(await works("unshare", [
      "--fork",
      "--pid",
      "--mount",
      "--net",
      "--uts",
      "--ipc",
      "mount",
      "--make-rshared",
      "/",
    ]))
  )
    return "namespaces of its own are not allowed here (unshare, mount)";
  if (!(await works("go", ["version"]))) return "it needs Go to build Kubernetes";
  if (missing().length > 0 && !existsSync("/usr/bin/apt-get"))
    return `these packages are missing, and there is no apt-get: ${missing().join(" ")}`;
  return undefined;
}

/** Install the Debian packages that are missing, without starting any of their services. */
export async function installPackages(): Promise<void> {
  const names = missing();
  if (names.length === 0) return;
  // In runlevel 1 the package scripts start no daemon.
  const env = { ...process.env, RUNLEVEL: "1", DEBIAN_FRONTEND: "noninteractive" };
  await timed(`Installed ${names.join(" ")}`, async () => {
    await run("apt-get", ["update", "-qq"], { env });
    await run("apt-get", ["install", "-qq", "-y", "--no-install-recommends", ...names], { env });
  });
  if (missing().length > 0) throw new ClusterFailure(`Not installed after all: ${missing().join(" ")}`);
}
