import { spawn } from "node:child_process";
import { mkdirSync, openSync } from "node:fs";
import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { commandLine, endOrphan, findProcesses } from "../../local/processes/process-table.ts";
import { ClusterFailure, run, until, works } from "../commands.ts";
import { cable, folders, logFile, network, runtimeDir } from "../settings.ts";
import { removeCgroups, removeState } from "./node-files.ts";

const program = join(import.meta.dirname, "node-init.ts");

/** Recognises the process whose death ends the node, also that of another clone: a machine has one cluster. */
const isNodeProcess = (line: string) =>
  line.startsWith("unshare ") && line.includes("/deploy/cluster/node/node-init.ts");

/** Returns the pid of the process that holds the node's namespaces; undefined when there is no cluster. */
export async function findNodeProcess(): Promise<number | undefined> {
  return (await findProcesses(isNodeProcess))[0];
}

/** Starts the node in its own namespaces; they and everything in them end with the process whose pid this returns. */
export async function startNode(): Promise<number> {
  const kinds = ["--pid", "--mount", "--net", "--uts", "--ipc"];
  mkdirSync(join(folders.node, "log"), { recursive: true });
  const log = openSync(logFile("node"), "w");
  // The shell is the first process in the namespaces: it reaps the components' orphans.
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

/** Waits for the node's first process and returns its pid, as seen from this machine. */
async function firstProcess(nodePid: number): Promise<string> {
  let pid = "";
  const children = `/proc/${nodePid}/task/${nodePid}/children`;
  await until("the node's first process", async () => {
    pid = (await readFile(children, "utf8")).trim();
    return pid !== "" && (await commandLine(Number(pid)))?.startsWith("sh ") === true;
  });
  return pid;
}

const masquerade = ["POSTROUTING", "-s", network.link, "!", "-o", cable.host, "-j", "MASQUERADE"];
const forward = ["-i", "-o"].map((direction) => ["FORWARD", direction, cable.host, "-j", "ACCEPT"]);

/** Connects the node to this machine by a veth pair, which also routes to services and pods. */
export async function connectNode(nodePid: number): Promise<void> {
  const pid = await firstProcess(nodePid);
  await run("ip", ["link", "add", cable.host, "type", "veth", "peer", "name", cable.node, "netns", pid]);
  await run("ip", ["address", "add", `${network.host}/24`, "dev", cable.host]);
  await run("ip", ["link", "set", cable.host, "up"]);
  for (const net of [network.services, network.pods])
    await run("ip", ["route", "add", net, "via", network.node]);
  await writeFile("/proc/sys/net/ipv4/ip_forward", "1");
  await run("iptables", ["-t", "nat", "-A", ...masquerade]);
  for (const rule of forward) await run("iptables", ["-I", ...rule]);
}

/** Where pods' network namespaces are named: by mounts inside the node, which leave empty files here. */
const podNetworks = "/run/netns";

/** Ends the node and removes all traces of it, also of one that was killed. Returns whether one was running. */
export async function removeNode(): Promise<boolean> {
  const pid = await findNodeProcess();
  if (pid !== undefined) await endOrphan(pid, isNodeProcess, "SIGKILL", 5_000);
  await works("ip", ["link", "delete", cable.host]);
  await works("iptables", ["-t", "nat", "-D", ...masquerade]);
  for (const rule of forward) await works("iptables", ["-D", ...rule]);
  // Mounts and processes disappear shortly after the first process; until then folders are busy.
  await until("nothing of the node is left", async () => {
    await removeState();
    return removeCgroups();
  });
  await works("umount", ["-R", join(folders.buildah, "root", "overlay")]); // a mount that buildah leaves
  for (const name of await readdir(podNetworks).catch(() => []))
    if (name.startsWith("cni-")) await rm(join(podNetworks, name), { force: true });
  await rm(join(runtimeDir, "containerd.sock"), { force: true });
  return pid !== undefined;
}

/** @throws ClusterFailure when another network uses the addresses. */
export async function requireAddresses(): Promise<void> {
  for (const address of [network.host, network.node, network.apiService, "10.244.0.1"]) {
    const route = await run("ip", ["-o", "route", "get", address]).catch(() => "");
    if (route !== "" && !route.includes(" via ") && !route.includes("unreachable"))
      throw new ClusterFailure(
        `The address ${address} belongs to another network of this machine: ${route.trim()}`,
      );
  }
}
