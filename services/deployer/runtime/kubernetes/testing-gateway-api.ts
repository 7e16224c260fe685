import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { loadYaml, type V1CustomResourceDefinition } from "@kubernetes/client-node";
import { eventually } from "../../../kit/testing/testing.ts";
import type { Kind, Kube } from "../../kube/client.ts";

const MODULE = "sigs.k8s.io/gateway-api@v1.4.1";
const NAME = "httproutes.gateway.networking.k8s.io";
const Definition: Kind<V1CustomResourceDefinition> = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  plural: "customresourcedefinitions",
};

/**
 * Teaches the cluster what HTTPRoutes are, unless it knows, by the definition in the Gateway API's Go module. Returns what
 * takes that back.
 */
export async function installHttpRoutes(kube: Kube): Promise<() => Promise<void>> {
  if (await kube.get(Definition, NAME)) return async () => {};
  const { stdout } = await promisify(execFile)("go", ["mod", "download", "-json", MODULE]);
  const file = join(JSON.parse(stdout).Dir, "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml");
  const definition = loadYaml<V1CustomResourceDefinition>(await readFile(file, "utf8"));
  await kube.apply(Definition, { ...definition, metadata: { ...definition.metadata, name: NAME } });
  await eventually("the cluster knows HTTPRoutes", async () => {
    const { status } = (await kube.get(Definition, NAME))!;
    return status?.conditions?.some(({ type, status: is }) => type === "Established" && is === "True");
  });
  return () => kube.remove(Definition, NAME);
}
