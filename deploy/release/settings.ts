/** Where releases are to be published. `--push` publishes to another registry, and the chart then names that one. */
export const home = "ghcr.io/berth-dev";

/** A platform of the images, with the names that npm and Debian have for its architecture. */
export type Platform = {
  arch: "amd64" | "arm64";
  npm: "x64" | "arm64";
  variant?: "v8";
  nodeIntegrity: string;
};

/** The npm packages `node-linux-*` of this version have Node's own program; both architectures must have it. */
export const nodeVersion = "24.21.0";

export const platforms: Platform[] = [
  {
    arch: "amd64",
    npm: "x64",
    nodeIntegrity:
      "sha512-3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==",
  },
  {
    arch: "arm64",
    npm: "arm64",
    variant: "v8",
    nodeIntegrity:
      "sha512-FpJRPEz2OvvTLfjIOlNGFY9JLPMKgl5m+d4oGYBLg24kJ1mmvN1Zl/HPJgF4HDaJ51ISev1l1cRZ/DM+keXW5g==",
  },
];

export type ImageName = "berth" | "berth-builder";

/** What an image has and how it starts: the same as its Dockerfile says (deploy/images), which a test compares. */
export type Recipe = {
  name: ImageName;
  title: string;
  description: string;
  /** Debian packages, and apt patterns, besides those they depend on. */
  packages: string[];
  /** The user with uid and gid 1000. */
  user: string;
  env: Record<string, string>;
};

/** The suite of Debian that the base of the Dockerfiles has. */
export const suite = "bookworm";
const baseEnv = {
  PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  NODE_ENV: "production",
};
const basePackages = ["?essential", "ca-certificates", "libstdc++6"];

export const recipes: Recipe[] = [
  {
    name: "berth",
    title: "Berth",
    description: "Self-hosted platform API: the gateway and every service",
    packages: basePackages,
    user: "berth",
    env: baseEnv,
  },
  {
    name: "berth-builder",
    title: "Berth builder",
    description: "Builds apps from source, as a Job in a cluster",
    packages: [...basePackages, "buildah", "git", "libcap2-bin", "netbase", "uidmap"],
    user: "builder",
    env: { ...baseEnv, HOME: "/home/builder", BUILDAH_ISOLATION: "chroot" },
  },
];

/** The folders and files of the repository that are in both images, at the same paths below `/app`. */
export const appSources = [
  "package.json",
  "package-lock.json",
  "proto",
  "services",
  "gateway",
  "docs",
  "deploy/images",
  "deploy/database",
  "deploy/backup",
];
