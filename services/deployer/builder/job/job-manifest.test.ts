import { describe, expect, test } from "vitest";
import { defaultBuildLimits } from "../port.ts";
import { type JobSettings, toJob, toSecret } from "./job-manifest.ts";
import type { JobRequest } from "./job-request.ts";

const settings: JobSettings = {
  namespace: "builds",
  image: "r/builder:1",
  userNamespaces: false,
  resources: { limits: { memory: "1Gi" } },
  extraCaBundle: "ca",
};
const request: JobRequest = {
  buildId: "bld_01M7",
  serviceId: "svc_1",
  type: "web",
  source: {
    kind: "git",
    repository: "https://git.test/a.git",
    branch: "main",
    token: "the-token-of-the-source",
  },
  limits: defaultBuildLimits,
  port: 8080,
  timeoutMs: 900_000,
  registry: { push: "r.test/berth", pull: "r.test/berth", insecure: false, auth: '{"auths":{}}' },
  baseImages: { node: "n", python: "p", go: "g", static: "s" },
  variables: {},
};

describe("the Job of a build", () => {
  const job = toJob(settings, request);
  const pod = job.spec!.template.spec!;
  const container = pod.containers[0]!;

  test("is named by the build, tried once, and ends by its deadline", () => {
    expect(job.metadata).toMatchObject({ name: "bld-01m7", namespace: "builds" });
    expect(job.metadata).toMatchObject({
      labels: { "berth.dev/build": "bld_01M7", "berth.dev/service": "svc_1", "berth.dev/kind": "build" },
    });
    expect(job.spec).toMatchObject({ backoffLimit: 0, activeDeadlineSeconds: 1_020 });
    expect(job.spec!.ttlSecondsAfterFinished).toBeGreaterThan(0);
    expect(pod.restartPolicy).toBe("Never");
  });

  test("holds no secret: that is what its Secret is for", () => {
    expect(JSON.stringify(job)).not.toContain("the-token-of-the-source");
    const secret = toSecret(settings, request);
    expect(secret.metadata.name).toBe("bld-01m7");
    expect(JSON.parse(secret.stringData.request!)).toEqual(request);
    expect(container.env![0]!.valueFrom!.secretKeyRef).toEqual({ name: "bld-01m7", key: "request" });
  });

  test("has no token of the cluster, and no rights but those that a range of users needs", () => {
    expect(pod).toMatchObject({ automountServiceAccountToken: false, enableServiceLinks: false });
    expect(container.securityContext).toEqual({
      runAsUser: 1000,
      runAsGroup: 1000,
      runAsNonRoot: true,
      allowPrivilegeEscalation: true,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"], add: ["SETUID", "SETGID"] },
      seccompProfile: { type: "Unconfined" },
    });
    const profiled = toJob({ ...settings, seccompProfile: "build.json" }, request);
    expect(profiled.spec!.template.spec!.containers[0]!.securityContext!.seccompProfile).toEqual({
      type: "Localhost",
      localhostProfile: "build.json",
    });
  });

  test("runs where the operator says, under the AppArmor profile that is named", () => {
    const placement = { nodeSelector: { pool: "builds" }, runtimeClassName: "kata" };
    const podWith = (more: Partial<JobSettings>) =>
      toJob({ ...settings, ...more }, request).spec!.template.spec!;
    expect(podWith({ placement })).toMatchObject(placement);
    const profile = (more: Partial<JobSettings>) =>
      podWith(more).containers[0]!.securityContext!.appArmorProfile;
    expect(profile({})).toBeUndefined();
    for (const userNamespaces of [false, true]) {
      expect(profile({ userNamespaces, appArmorProfile: "unconfined" })).toEqual({ type: "Unconfined" });
      expect(profile({ userNamespaces, appArmorProfile: "berth-build" })).toEqual({
        type: "Localhost",
        localhostProfile: "berth-build",
      });
    }
  });

  test("is root of its own user namespace alone, where the cluster has such", () => {
    const spec = toJob({ ...settings, userNamespaces: true }, request).spec!.template.spec!;
    expect(spec.hostUsers).toBe(false);
    expect(spec.containers[0]!.securityContext!.seccompProfile).toEqual({ type: "RuntimeDefault" });
  });
});
