import { existsSync } from "node:fs";
import { ClusterFailure, run, timed, works } from "../commands.ts";

/** Debian packages, each with a file that it installs. */
const packages = {
  containerd: "/usr/bin/containerd",
  runc: "/usr/sbin/runc",
  "containernetworking-plugins": "/usr/lib/cni/bridge",
  iptables: "/usr/sbin/iptables",
  ipset: "/usr/sbin/ipset",
  iproute2: "/usr/sbin/ip",
  buildah: "/usr/bin/buildah",
  mmdebstrap: "/usr/bin/mmdebstrap",
  openssl: "/usr/bin/openssl",
};

const missing = () =>
  Object.keys(packages).filter((name) => !existsSync(packages[name as keyof typeof packages]));

/** Returns why the cluster cannot run on this machine; undefined when it can. */
export async function findObstacle(): Promise<string | undefined> {
  if (process.platform !== "linux") return "it needs Linux";
  if (process.getuid?.() !== 0) return "it needs root";
  if (process.arch !== "x64" && process.arch !== "arm64") return `it is not built for ${process.arch}`;
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
    return "creating namespaces is not allowed here (unshare, mount)";
  if (!(await works("go", ["version"]))) return "it needs Go to build Kubernetes";
  if (missing().length > 0 && !existsSync("/usr/bin/apt-get"))
    return `these packages are missing, and there is no apt-get: ${missing().join(" ")}`;
  return undefined;
}

/** Installs pip, by which PostgreSQL is fetched, unless there is one. */
export async function installPip(): Promise<void> {
  if (await works("python3", ["-m", "pip", "--version"])) return;
  await run("apt-get", ["update", "-qq"]);
  await run("apt-get", ["install", "-qq", "-y", "--no-install-recommends", "python3-pip"]);
}

/** Installs the missing Debian packages, without starting any of their services. */
export async function installPackages(): Promise<void> {
  const names = missing();
  if (names.length === 0) return;
  // In runlevel 1 the package scripts start no daemon.
  const env = { ...process.env, RUNLEVEL: "1", DEBIAN_FRONTEND: "noninteractive" };
  await timed(`Installed ${names.join(" ")}`, async () => {
    await run("apt-get", ["update", "-qq"], { env });
    await run("apt-get", ["install", "-qq", "-y", "--no-install-recommends", ...names], { env });
  });
  if (missing().length > 0)
    throw new ClusterFailure(
      `apt-get succeeded, but these packages are not installed: ${missing().join(" ")}`,
    );
}
