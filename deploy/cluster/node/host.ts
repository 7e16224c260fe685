import { spawn } from "node:child_process";
import { mkdirSync, openSync } from "node:fs";
import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { commandLine, endOrphan, findProcesses } from "../../local/processes/process-table.ts";
import { ClusterFailure, run, until, works } from "../run/commands.ts";
import { cable, folders, logFile, network, runtimeDir } from "../settings.ts";
import { removeCgroups, removeState } from "./node-files.ts";

const program = join(import.meta.dirname, "node-init.ts");

/** The process whose death ends the node, of this clone or another: there is one cluster on a machine. */
const isKeeper = (line: string) =>
  line.startsWith("unshare ") && line.includes("/deploy/cluster/node/node-init.ts");

/** The node's keeper, where it runs. */
export async function keeper(): Promise<number | undefined> {
  return (await findProcesses(isKeeper))[0];
}

/** Start the node in namespaces of its own. They, and all that runs in them, end with the process this gives. */
export async function startNode(): Promise<number> {
  const kinds = ["--pid", "--mount", "--net", "--uts", "--ipc"];
  mkdirSync(join(folders.node, "log"), { recursive: true });
  const log = openSync(logFile("node"), "w");
  // The shell is the first process in there: it reaps what the components leave behind.
  const child = spawn(
    "unshare",
    [
      "--fork",
      ...kinds,
      "--kill-child=SIGKILL",
      "--mount-proc",
      "sh",
      "-c",
      '"$@" & wait',
      "node",
      process.execPath,
      program,
    ],
    { detached: true, stdio: ["ignore", log, log], cwd: "/" },
  );
  child.unref();
  const pid = child.pid;
  if (!pid) throw new ClusterFailure("unshare did not start");
  return pid;
}

async function firstProcess(keeperPid: number): Promise<string> {
  let pid = "";
  const children = `/proc/${keeperPid}/task/${keeperPid}/children`;
  await until("the node's first process", async () => {
    pid = (await readFile(children, "utf8")).trim();
    return pid !== "" && (await commandLine(Number(pid)))?.startsWith("sh ") === true;
  });
  return pid;
}

const masquerade = ["POSTROUTING", "-s", network.link, "!", "-o", cable.host, "-j", "MASQUERADE"];
const forward = ["-i", "-o"].map((way) => ["FORWARD", way, cable.host, "-j", "ACCEPT"]);

/** Lay the cable to the node; services and pods are reached through it as well. */
export async function connectNode(keeperPid: number): Promise<void> {
  const pid = await firstProcess(keeperPid);
  await run("ip", ["link", "add", cable.host, "type", "veth", "peer", "name", cable.node, "netns", pid]);
  await run("ip", ["address", "add", `${network.host}/24`, "dev", cable.host]);
  await run("ip", ["link", "set", cable.host, "up"]);
  for (const net of [network.services, network.pods])
    await run("ip", ["route", "add", net, "via", network.node]);
  await writeFile("/proc/sys/net/ipv4/ip_forward", "1");
  await run("iptables", ["-t", "nat", "-A", ...masquerade]);
  for (const rule of forward) await run("iptables", ["-I", ...rule]);
}

/** Where pods' network namespaces had their names; those were mounts inside the node, here empty files are left. */
const podNetworks = "/run/netns";

/** End the node and remove all traces of it on this machine; also of one that was killed. True: there was one. */
export async function removeNode(): Promise<boolean> {
  const pid = await keeper();
  if (pid !== undefined) await endOrphan(pid, isKeeper, "SIGKILL", 5_000);
  await works("ip", ["link", "delete", cable.host]);
  await works("iptables", ["-t", "nat", "-D", ...masquerade]);
  for (const rule of forward) await works("iptables", ["-D", ...rule]);
  // Mounts and processes vanish a moment after the first process; until then folders are busy.
  await until("nothing of the node is left", async () => {
    await removeState();
    return removeCgroups();
  });
  await works("umount", ["-R", join(folders.buildah, "root", "overlay")]); // buildah mounts it upon itself
  for (const name of await readdir(podNetworks).catch(() => []))
    if (name.startsWith("cni-")) await rm(join(podNetworks, name), { force: true });
  await rm(join(runtimeDir, "containerd.sock"), { force: true });
  return pid !== undefined;
}

/** @throws ClusterFailure when the addresses are taken by something else. */
export async function requireAddresses(): Promise<void> {
  for (const address of [network.host, network.node, network.apiService, "10.244.0.1"]) {
    const route = await run("ip", ["-o", "route", "get", address]).catch(() => "");
    if (route !== "" && !route.includes(" via ") && !route.includes("unreachable"))
      throw new ClusterFailure(`The address ${address} belongs to another network here: ${route.trim()}`);
  }
}
