import { expect, test } from "vitest";
import { explainNode, type NodeFacts } from "./node-faults.ts";

const facts: NodeFacts = {
  userNamespaces: false,
  appArmor: "",
  seccomp: false,
  noNewPrivileges: false,
  maxUserNamespaces: "63000",
  unprivilegedClone: "",
  appArmorRestricts: "",
  output: "unshare: Operation not permitted",
};

test.each<[string, Partial<NodeFacts>, string]>([
  ["no user namespaces at all", { maxUserNamespaces: "0" }, "sysctl user.max_user_namespaces"],
  ["those of root alone", { unprivilegedClone: "0" }, "sysctl kernel.unprivileged_userns_clone"],
  [
    "Ubuntu 24.04, without a profile",
    { userNamespaces: true, appArmor: "unconfined", appArmorRestricts: "1" },
    "name it in builds.appArmorProfile",
  ],
  [
    "AppArmor's default",
    { userNamespaces: true, appArmor: "cri-containerd.apparmor.d", appArmorRestricts: "1" },
    "The node's AppArmor profile cri-containerd.apparmor.d forbids mounts: set builds.appArmorProfile",
  ],
  ["seccomp's default", { seccomp: true }, "name it in builds.seccompProfile"],
  [
    "both defaults",
    { seccomp: true, appArmor: "cri-containerd.apparmor.d" },
    "name it in builds.seccompProfile",
  ],
  ["a policy engine that changes pods", { noNewPrivileges: true }, "allowPrivilegeEscalation is false"],
  [
    "something else",
    { userNamespaces: true, appArmor: "unconfined" },
    "Builds cannot mount in a user namespace on this node: unshare: Operation not permitted.",
  ],
])("a node with %s is described in a sentence", (_what, changes, sentence) => {
  expect(explainNode({ ...facts, ...changes })).toContain(sentence);
});
