import { mkdirSync, readFileSync } from "node:fs";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { runCommand } from "../../run-command.ts";
import { PATHS } from "../job-request.ts";

/** What is known of the node when builds cannot do there what they need. */
export type NodeFacts = {
  /** Whether user namespaces can be made; if so, mounts in them are what fails. */
  userNamespaces: boolean;
  /** The AppArmor profile of this process, such as `cri-containerd.apparmor.d`; empty without AppArmor. */
  appArmor: string;
  /** Whether a seccomp profile filters system calls. */
  seccomp: boolean;
  noNewPrivileges: boolean;
  /** Settings of the node's kernel that keep processes from user namespaces; empty where it has no such setting. */
  maxUserNamespaces: string;
  unprivilegedClone: string;
  appArmorRestricts: string;
  /** What the failed attempt printed. */
  output: string;
};

/**
 * Returns a sentence that says what the node lacks for builds, and which setting helps; undefined when user namespaces
 * and mounts in them work. It tries, so it is for builds that have failed.
 */
export async function findNodeFault(signal: AbortSignal): Promise<string | undefined> {
  const folder = join(PATHS.run, "berth-check");
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const { PATH = "", HOME = "" } = process.env;
  const context = { cwd: folder, folder, env: { PATH, HOME, TMPDIR: folder, XDG_RUNTIME_DIR: folder } };
  const printed: string[] = [];
  const succeeds = async (command: string[]) =>
    (await runCommand(command, context, (line) => printed.push(line), signal)) === 0;
  // Root has a user namespace of its pod.
  const inNamespace = userInfo().uid === 0 ? ["unshare", "--mount"] : ["buildah", "unshare"];
  if (await succeeds([...inNamespace, "mount", "-t", "tmpfs", "tmpfs", tmpdir()])) return undefined;
  const userNamespaces = await succeeds([...inNamespace, "true"]);
  return explainNode({ ...readFacts(), userNamespaces, output: printed.join(" ").slice(0, 500) });
}

function readFacts(): Omit<NodeFacts, "userNamespaces" | "output"> {
  const status = read("/proc/self/status");
  return {
    // "cri-containerd.apparmor.d (enforce)"
    appArmor: read("/proc/self/attr/apparmor/current").split(" ")[0]!,
    seccomp: /^Seccomp:\s*2$/m.test(status),
    noNewPrivileges: /^NoNewPrivs:\s*1$/m.test(status),
    maxUserNamespaces: read("/proc/sys/user/max_user_namespaces"),
    unprivilegedClone: read("/proc/sys/kernel/unprivileged_userns_clone"),
    appArmorRestricts: read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
  };
}

/** Returns a file's text without its last line break; empty when it cannot be read. */
function read(file: string): string {
  try {
    return readFileSync(file, "utf8").trim();
  } catch {
    return "";
  }
}

/** Returns a sentence that says what a node lacks, the likeliest cause first; pure. */
export function explainNode(facts: NodeFacts): string {
  const { userNamespaces, appArmor, seccomp, output } = facts;
  const confined = appArmor !== "" && appArmor !== "unconfined";
  if (facts.maxUserNamespaces === "0")
    return "The node allows no user namespaces: set its sysctl user.max_user_namespaces to 65536.";
  if (facts.unprivilegedClone === "0")
    return "The node allows user namespaces only to root: set its sysctl kernel.unprivileged_userns_clone to 1.";
  if (facts.appArmorRestricts === "1" && (appArmor === "unconfined" || appArmor === "unprivileged_userns"))
    return "The node's AppArmor keeps processes without a profile from user namespaces: load a profile such as deploy/cluster/templates/apparmor-build on the nodes and name it in builds.appArmorProfile.";
  if (facts.noNewPrivileges)
    return "The cluster keeps builds from gaining rights (allowPrivilegeEscalation is false): exempt the namespace of builds from the policy that sets it.";
  if (!userNamespaces && seccomp)
    return "A seccomp profile forbids user namespaces: put deploy/cluster/templates/seccomp-build.json into the kubelet's seccomp folder of the nodes and name it in builds.seccompProfile.";
  if (confined)
    return `The node's AppArmor profile ${appArmor} forbids mounts: set builds.appArmorProfile to unconfined, or to a profile that is loaded on the nodes.`;
  const what = userNamespaces ? "mount in a user namespace" : "make a user namespace";
  return `Builds cannot ${what} on this node: ${output || "it gave no reason"}.`;
}
